/* How many channels of a convolution are computed at once. Registers of AVX-512 hold the sums of two panels. */
#if defined(__AVX512F__)
enum { exploy_channels_at_once = 32 };
#else
enum { exploy_channels_at_once = 16 };
#endif
