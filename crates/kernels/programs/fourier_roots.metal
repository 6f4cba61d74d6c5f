// The roots of unity, cosine and sine: e^(2πi j / n). Angles are brought into an eighth of the circle exactly,
// in whole numbers, so that no digit is lost.

typedef Element<DTYPE>::Value V;

KERNEL_1(roots) {
    const Thread t = THREAD;
    for (u64 j = first_item<u64>(t); j < p.length; j += all_items<u64>(t)) {
        const u64 eighth = 8 * j / p.length, rest = 8 * j - eighth * p.length;
        // Every second eighth is counted backwards.
        const u64 part = (eighth & 1) != 0 ? p.length - rest : rest;
        const V angle = (V)part / (V)p.length * (V)0.78539816339744830962;
        const V c = m_cos(angle), s = m_sin(angle);
        const bool turned = eighth == 1 || eighth == 2 || eighth == 5 || eighth == 6;
        const V x = turned ? s : c, y = turned ? c : s;
        ((DEVICE V*)roots)[2 * j] = eighth >= 2 && eighth <= 5 ? -x : x;
        ((DEVICE V*)roots)[2 * j + 1] = eighth >= 4 ? -y : y;
    }
}
