// Boxes that no better one overlaps. A group has a class of a batch: it takes the best box that is left, and drops all
// that overlap it. `picks` has for each class how many were taken, and then these.

struct Best {
    f32 score;
    u32 box;
    FN Best empty() {
        const Best none = {0.0f, 0xffffffffu};
        return none;
    }
    FN Best join(Best a, Best b) {
        if (a.box == 0xffffffffu) return b;
        if (b.box == 0xffffffffu) return a;
        return a.score > b.score || (a.score == b.score && a.box < b.box) ? a : b;
    }
    FN Best other(Best a, u32 mask) {
        Best b;
        b.score = lane_xor(a.score, mask);
        b.box = lane_xor(a.box, mask);
        return b;
    }
};

FN f32 lower(f32 a, f32 b) { return b < a ? b : a; }
FN f32 higher(f32 a, f32 b) { return a < b ? b : a; }

struct Corners { f32 left, low, right, high; };
FN Corners corners_of(IN_PARAMS Params& p, DEVICE const u8* boxes, u64 at) {
    DEVICE const f32* from = (DEVICE const f32*)boxes + at;
    const f32 a = from[0], b = from[p.box_step[2]], c = from[2 * p.box_step[2]], d = from[3 * p.box_step[2]];
    if (p.centered != 0) {
        const f32 wide = exact_mul(c, 0.5f), tall = exact_mul(d, 0.5f);
        const Corners box = {exact_add(a, -wide), exact_add(b, -tall), exact_add(a, wide), exact_add(b, tall)};
        return box;
    }
    const Corners box = {lower(b, d), lower(a, c), higher(b, d), higher(a, c)};
    return box;
}
FN f32 area(Corners box) {
    return exact_mul(exact_add(box.right, -box.left), exact_add(box.high, -box.low));
}
FN bool overlaps(Corners a, Corners b, f32 limit) {
    const Corners both = {higher(a.left, b.left), higher(a.low, b.low), lower(a.right, b.right), lower(a.high, b.high)};
    if (both.right <= both.left || both.high <= both.low) return false;
    const f32 own = area(a), its = area(b), shared = area(both);
    const f32 all = exact_add(exact_add(own, its), -shared);
    return shared > 0.0f && own > 0.0f && its > 0.0f && all > 0.0f && shared / all > limit;
}

KERNEL_4(boxes, scores, left, picks) {
    SHARED Best scratch[32];
    const Thread t = THREAD;
    for (u64 pair = t.group; pair < p.pairs; pair += t.groups) {
        const u64 batch = pair / p.classes;
        const u64 row = p.score_offset + batch * p.score_step[0] + pair % p.classes * p.score_step[1];
        const u64 start = p.box_offset + batch * p.box_step[0];
        // Every thread has boxes of its own, so nobody else looks at whether they are left.
        DEVICE u8* own = left + pair * p.boxes;
        DEVICE u32* taken = (DEVICE u32*)picks + pair * (p.most + 1);
        for (u64 i = t.index; i < p.boxes; i += t.count) {
            const f32 score = ((DEVICE const f32*)scores)[row + i * p.score_step[2]];
            own[i] = score == score && (p.has_score == 0 || score > p.score) ? 1 : 0;
        }
        u32 number = 0;
        while (number < p.most) {
            Best best = Best::empty();
            for (u64 i = t.index; i < p.boxes; i += t.count) {
                if (own[i] == 0) continue;
                const Best one = {((DEVICE const f32*)scores)[row + i * p.score_step[2]], (u32)i};
                best = Best::join(best, one);
            }
            best = group_merge(t, best, scratch);
            if (best.box == 0xffffffffu) break;
            const Corners box = corners_of(p, boxes, start + best.box * p.box_step[1]);
            for (u64 i = t.index; i < p.boxes; i += t.count) {
                if (i == best.box) own[i] = 0;
                if (own[i] == 0) continue;
                if (overlaps(box, corners_of(p, boxes, start + i * p.box_step[1]), p.overlap)) own[i] = 0;
            }
            ++number;
            if (t.index == 0) taken[number] = best.box;
        }
        if (t.index == 0) taken[0] = number;
    }
}
