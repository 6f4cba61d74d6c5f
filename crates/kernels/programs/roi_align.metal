// Regions of interest, each brought to the same size. MAX: the largest term of all samples, else their mean. HALF: 0 is
// the outer edge of the first element, else its middle, and regions have at least one element.

typedef Index<WIDE>::Type I;

// One output along one axis, in elements, and the samples of it that are not outside.
struct Bin {
    f32 start, length, count;
    u32 first, last;
};

FN f32 sample_place(IN_THREAD const Bin& bin, u32 sample) {
    return exact_add(bin.start, exact_mul((f32)sample + 0.5f, bin.length) / bin.count);
}
// A place that is no number is outside.
FN bool is_inside(f32 place, f32 size) { return place >= -1.0f && place <= size; }

FN Bin bin_of(f32 from, f32 to, f32 scale, f32 outputs, f32 output, f32 size, u32 fixed, u32 most) {
    const f32 shift = HALF ? -0.5f : 0.0f;
    const f32 start = exact_add(exact_mul(from, scale), shift);
    f32 length = exact_add(exact_add(exact_mul(to, scale), shift), -start);
    if (!HALF && length < 1.0f) length = 1.0f;
    Bin bin;
    bin.length = length / outputs;
    bin.start = exact_add(start, exact_mul(output, bin.length));
    bin.count = (f32)fixed;
    if (fixed == 0 && bin.length > 0.0f) {
        bin.count = m_ceil(bin.length);
        if (bin.count > (f32)most) bin.count = (f32)most;
    }
    // Places only rise or only fall, so that those inside have no gaps.
    const u32 count = (u32)bin.count;
    u32 first = 0;
    while (first < count && !is_inside(sample_place(bin, first), size)) ++first;
    u32 last = first;
    while (last < count && is_inside(sample_place(bin, last), size)) ++last;
    bin.first = first;
    bin.last = last;
    return bin;
}
FN bool is_whole(IN_THREAD const Bin& bin) { return bin.last != 0 && bin.first == 0 && bin.last == (u32)bin.count; }

// The two elements around a sample, and what they count.
struct Pair {
    I index[2];
    f32 weight[2];
};
FN Pair pair_at(f32 place, I size) {
    Pair pair;
    if (!(place > 0.0f)) place = 0.0f;
    const I low = (I)place;
    if (low >= size - 1) {
        pair.index[0] = pair.index[1] = size - 1;
        pair.weight[0] = 1.0f;
        pair.weight[1] = 0.0f;
        return pair;
    }
    const f32 part = place - (f32)low;
    pair.index[0] = low;
    pair.index[1] = low + 1;
    pair.weight[0] = 1.0f - part;
    pair.weight[1] = part;
    return pair;
}

KERNEL_5(dst, src, rois, batches, faults) {
    const Thread t = THREAD;
    for (I item = first_item<I>(t); item < (I)p.count; item += all_items<I>(t)) {
        I place[2];
        const I outer = window_place<2, I>(p.out_size, item, place);
        const I region = outer / (I)p.channels, channel = outer - region * (I)p.channels;
        const i64 batch = load_index(batches, p.offset[3] + region * p.stride[3][0], p.wide_batches);
        if (batch < 0 || batch >= (i64)p.batches) {
            fault(faults, FAULT_INDEX, p.index);
            continue;
        }
        const I corner = (I)p.offset[2] + region * (I)p.stride[2][0], next = (I)p.stride[2][1];
        const Bin down = bin_of(load<DTYPE>(rois, corner + next), load<DTYPE>(rois, corner + 3 * next), p.scale,
                                (f32)p.out_size[0], (f32)place[0], (f32)p.in_size[0], p.samples, p.most);
        const Bin across = bin_of(load<DTYPE>(rois, corner), load<DTYPE>(rois, corner + 2 * next), p.scale,
                                  (f32)p.out_size[1], (f32)place[1], (f32)p.in_size[1], p.samples, p.most);
        const I start = (I)p.offset[1] + (I)batch * (I)p.stride[1][0] + channel * (I)p.stride[1][1];
        // Of samples outside, and of none, the largest is 0.
        const bool whole = is_whole(down) && is_whole(across);
        bool empty = MAX && whole;
        f32 value = 0.0f;
        for (u32 y = down.first; y < down.last; ++y) {
            const Pair rows = pair_at(sample_place(down, y), (I)p.in_size[0]);
            for (u32 x = across.first; x < across.last; ++x) {
                const Pair columns = pair_at(sample_place(across, x), (I)p.in_size[1]);
                UNROLL for (int k = 0; k < 4; ++k) {
                    const f32 weight = rows.weight[k / 2] * columns.weight[k % 2];
                    // What counts nothing is 0, even where it is not finite.
                    f32 term = 0.0f;
                    if (weight != 0.0f) {
                        const I at = start + rows.index[k / 2] * (I)p.stride[1][2] + columns.index[k % 2] * (I)p.stride[1][3];
                        term = weight * load<DTYPE>(src, at);
                    }
                    value = !MAX ? value + term : empty ? term : m_max(value, term);
                    empty = false;
                }
            }
        }
        if (!MAX) value /= m_max(down.count * across.count, 1.0f);
        store<DTYPE>(dst, window_at<2, I>(p.offset[0], p.stride[0], region, channel, place), value);
    }
}
