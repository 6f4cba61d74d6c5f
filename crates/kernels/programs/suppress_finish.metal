// The boxes of all classes in one list, and zeros behind them.

KERNEL_3(selected, count, picks) {
    SHARED u64 scratch[32];
    const Thread t = THREAD;
    DEVICE const u32* all = (DEVICE const u32*)picks;
    DEVICE i64* rows = (DEVICE i64*)selected + p.offset;
    u64 total = 0;
    for (u64 pair = t.index; pair < p.pairs; pair += t.count) total += all[pair * (p.most + 1)];
    total = group_join<Sum>(t, total, (u64)0, scratch);
    for (u64 pair = t.group; pair < p.pairs; pair += t.groups) {
        u64 before = 0;
        for (u64 other = t.index; other < pair; other += t.count) before += all[other * (p.most + 1)];
        before = group_join<Sum>(t, before, (u64)0, scratch);
        DEVICE const u32* own = all + pair * (p.most + 1);
        for (u64 i = t.index; i < own[0]; i += t.count) {
            DEVICE i64* row = rows + (before + i) * p.row;
            row[0] = (i64)(pair / p.classes);
            row[p.column] = (i64)(pair % p.classes);
            row[2 * p.column] = (i64)own[i + 1];
        }
    }
    for (u64 i = total + first_item<u64>(t); i < p.pairs * p.most; i += all_items<u64>(t)) {
        for (u32 k = 0; k < 3; ++k) rows[i * p.row + k * p.column] = 0;
    }
    if (t.group == 0 && t.index == 0) ((DEVICE i64*)count)[p.count_at] = (i64)total;
}
