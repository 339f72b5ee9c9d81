// SPDX-License-Identifier: BSD-3-Clause

extern "C" __attribute__((visibility("default"))) void ucp_get_version(unsigned *major, unsigned *minor,
                                                                       unsigned *release) {
    *major = 1;
    *minor = FAKE_MINOR;
    *release = 0;
}
