// Elements written by index: updates of one place are applied in row-major order.
//
// Places are dealt out to the groups along x. Every group goes over all indices of its part in order and
// queues those that name one of its places; whoever has the first of a place in the queue applies
// all of them. REDUCTION is 0 to replace, and TYPE then only a size.

typedef Index<WIDE>::Type I;

#if REDUCTION == 0
typedef Raw<TYPE>::Stored Stored;
#else
typedef Element<TYPE>::Stored Stored;
typedef Element<TYPE>::Value Value;
FN Stored combine(Stored old, Stored update) {
    const Value a = Element<TYPE>::get(old), b = Element<TYPE>::get(update);
#if REDUCTION == 1 && TYPE <= F64
    return Element<TYPE>::put(exact_add(a, b));
#elif REDUCTION == 1
    return Element<TYPE>::put(wrapping_add(a, b));
#elif REDUCTION == 2 && TYPE <= F64
    return Element<TYPE>::put(exact_mul(a, b));
#elif REDUCTION == 2
    return Element<TYPE>::put(wrapping_mul(a, b));
#elif REDUCTION == 3
    return Element<TYPE>::put(m_max(a, b));
#else
    return Element<TYPE>::put(m_min(a, b));
#endif
}
#endif

// Items that a thread looks at before the group talks, and the length of the queue.
enum { ITEMS = 2, QUEUE = 4 * THREADS };

KERNEL_4(dst, indices, updates, faults) {
    SHARED I places[QUEUE];
    SHARED I sources[QUEUE];
    SHARED u32 next[QUEUE];
    SHARED u32 follows[QUEUE];
    SHARED u32 totals[32];
    const Thread t = THREAD;
    const I begin = (I)(t.group_y * p.part);
    const I end = (I)m_min((u64)begin + p.part, p.items.count);
    u32 queued = 0;
    for (I base = begin; base < end; base += ITEMS * THREADS) {
        I place[ITEMS], source[ITEMS];
        u32 own = 0;
        for (u32 k = 0; k < ITEMS; ++k) {
            const I item = base + t.index * ITEMS + k;
            if (item >= end) continue;
            I at[3];
            locate<RANK, 3, I>(p.items, item, at);
            I to = at[1];
            if (!tuple_position<I>(p.tuple, indices, at[2], to)) {
                fault(faults, FAULT_INDEX, p.index);
                continue;
            }
            const u32 spread = ((u32)to ^ (u32)((u64)to >> 32)) * 0x9e3779b1u >> 16;
            if (spread * t.groups >> 16 != t.group) continue;
            place[own] = to;
            source[own] = at[0];
            ++own;
        }
        u32 upto = own;
        for (u32 by = 1; by < 32; by <<= 1) {
            const u32 before = lane_up(upto, by);
            if (t.lane >= by) upto += before;
        }
        if (t.lane == 31) totals[t.simd] = upto;
        group_barrier();
        u32 total = 0;
        for (u32 simd = 0; simd < THREADS / 32; ++simd) {
            if (simd == t.simd) upto += total;
            total += totals[simd];
        }
        for (u32 k = 0; k < own; ++k) {
            places[queued + upto - own + k] = place[k];
            sources[queued + upto - own + k] = source[k];
        }
        queued += total;
        group_barrier();
        if (queued <= QUEUE - ITEMS * THREADS && base + ITEMS * THREADS < end) continue;

        // Lists of the entries that name one place.
        for (u32 q = t.index; q < queued; q += THREADS) follows[q] = 0;
        group_barrier();
        for (u32 q = t.index; q < queued; q += THREADS) {
            u32 other = q + 1;
            while (other < queued && places[other] != places[q]) ++other;
            next[q] = other;
            if (other < queued) follows[other] = 1;
        }
        group_barrier();
        const u32 column = t.index & (p.columns - 1);
        const u32 row = t.index / p.columns, rows = THREADS / p.columns;
        for (I c = (I)t.group_z * p.columns + column; c < (I)p.slice.count; c += (I)t.groups_z * p.columns) {
            I within[2];
            locate<SLICE_RANK, 2, I>(p.slice, c, within);
            for (u32 q = row; q < queued; q += rows) {
                if (follows[q] != 0) continue;
                DEVICE Stored* to = (DEVICE Stored*)dst + (places[q] + within[1]);
                DEVICE const Stored* from = (DEVICE const Stored*)updates + within[0];
                u32 k = q;
#if REDUCTION == 0
                while (next[k] < queued) k = next[k];
                *to = from[sources[k]];
#else
                Stored value = *to;
                for (; k < queued; k = next[k]) value = combine(value, from[sources[k]]);
                *to = value;
#endif
            }
        }
        queued = 0;
        group_barrier();
    }
}
