// Random numbers: Philox 4x32-10, bit for bit as millstream_core::philox makes them. No sum is joined with
// a product, and no function of the platform is used.

typedef Index<WIDE>::Type I;

struct Words { u32 w[4]; };
FN Words philox(u64 seed, u64 block) {
    Words c = {{(u32)block, (u32)(block >> 32), 0, 0}};
    u32 low = (u32)seed, high = (u32)(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const u64 first = (u64)0xd2511f53u * c.w[0], second = (u64)0xcd9e8d57u * c.w[2];
        const Words next = {{(u32)(second >> 32) ^ c.w[1] ^ low, (u32)second,
                             (u32)(first >> 32) ^ c.w[3] ^ high, (u32)first}};
        c = next;
        low += 0x9e3779b9u;
        high += 0xbb67ae85u;
    }
    return c;
}

FN f32 add(f32 a, f32 b) { return exact_add(a, b); }
FN f32 mul(f32 a, f32 b) { return exact_mul(a, b); }
// 2^-24.
FN f32 unit() { return 5.9604644775390625e-8f; }
FN f32 uniform(u32 word) { return mul((f32)(i32)(word >> 8), unit()); }

// The natural logarithm of a normal number in (0, 1].
FN f32 logarithm(f32 value) {
    const i32 bits = (i32)bits_of(value);
    // 0x3f3504f3 is the square root of one half.
    const i32 exponent = (bits - 0x3f3504f3) >> 23;
    const f32 fraction = f32_of((u32)(bits - exponent * (1 << 23)));
    const f32 s = add(fraction, -1.0f) / add(fraction, 1.0f);
    const f32 t = mul(s, s);
    f32 tail = add(1.0f / 7.0f, mul(t, 1.0f / 9.0f));
    tail = add(1.0f / 5.0f, mul(t, tail));
    tail = add(1.0f / 3.0f, mul(t, tail));
    tail = mul(t, tail);
    const f32 power = (f32)exponent, twice = mul(2.0f, s);
    const f32 low = add(mul(power, 1.4286068e-6f), mul(twice, tail));
    return add(mul(power, 0.69314575f), add(twice, low));
}

// Cosine for `odd` 0, sine for `odd` 1, of parts of 2^24 of a full turn.
FN f32 turn(u32 steps, u32 odd) {
    const u32 quarter = (steps + (1u << 21)) >> 22;
    const i32 left = (i32)steps - (i32)(quarter << 22);
    const f32 x = mul((f32)left, 6.28318530717958647692f * 5.9604644775390625e-8f);
    const f32 t = mul(x, x);
    f32 result;
    // Odd quarters swap the two.
    if (((quarter ^ odd) & 1) != 0) {
        f32 sum = add(-1.0f / 5040.0f, mul(t, 1.0f / 362880.0f));
        sum = add(1.0f / 120.0f, mul(t, sum));
        sum = add(-1.0f / 6.0f, mul(t, sum));
        result = add(x, mul(mul(x, t), sum));
    } else {
        f32 sum = add(1.0f / 40320.0f, mul(t, -1.0f / 3628800.0f));
        sum = add(-1.0f / 720.0f, mul(t, sum));
        sum = add(1.0f / 24.0f, mul(t, sum));
        sum = add(-0.5f, mul(t, sum));
        result = add(1.0f, mul(t, sum));
    }
    // The sine is negative in quarters 2 and 3, the cosine in 1 and 2.
    const u32 flip = odd != 0 ? quarter & 2 : (quarter + 1) & 2;
    return f32_of(bits_of(result) ^ flip << 30);
}

FN f32 normal(u32 radius, u32 angle, u32 odd) {
    const f32 share = mul((f32)(i32)((radius >> 8) + 1), unit());
    return mul(m_sqrt(mul(-2.0f, logarithm(share))), turn(angle >> 8, odd));
}

FN f32 number(IN_PARAMS Params& p, IN_THREAD const Words& words, u32 k) {
    if (NORMAL) return add(p.first, mul(p.second, normal(words.w[k & 2], words.w[k | 1], k & 1)));
    const f32 fraction = uniform(words.w[k]);
    const f32 span = add(p.second, -p.first);
    if (!is_infinite(span)) return add(p.first, mul(span, fraction));
    // Limits so far apart that their distance is no number: go half the way twice.
    const f32 half_span = add(mul(p.second, 0.5f), -mul(p.first, 0.5f));
    const f32 step = mul(half_span, fraction);
    return add(add(p.first, step), step);
}

// Each thread makes the numbers of one block of four.
KERNEL_1(dst) {
    const Thread t = THREAD;
    const u32 inside = (u32)p.offset & 3;
    const I count = (I)p.walk.count;
    const I blocks = (count + inside + 3) / 4;
    for (I i = first_item<I>(t); i < blocks; i += all_items<I>(t)) {
        // Positions wrap around, and so does the number of their block.
        const Words words = philox(p.seed, (p.offset / 4 + i) & (((u64)1 << 62) - 1));
        for (u32 k = 0; k < 4; ++k) {
            const I element = i * 4 + k - inside;
            if (i * 4 + k < inside || element >= count) continue;
            I at[1];
            locate<RANK, 1, I>(p.walk, element, at);
            ((DEVICE Element<TYPE>::Stored*)dst)[at[0]] = Element<TYPE>::put(number(p, words, k));
        }
    }
}
