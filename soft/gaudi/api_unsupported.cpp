// SPDX-License-Identifier: BSD-3-Clause
// Exported functions without a model. Those that the driver of a Gaudi2 refuses fail in the same way; the others also
// print that they are not modelled.
#include "call.h"

using namespace softgaudi;

namespace {

/// For functions that the driver of these generations refuses.
int refused(const Call &call, int error) { return fail(call ? error : call.error()); }

int unmodelled(Function function, const Call &call, int error) {
    return call ? not_modelled(function, error) : fail(call.error());
}

} // namespace

// Staged submission and waiting for several submissions exist on the first Gaudi only.
SOFTGAUDI_API int hlthunk_staged_command_submission(int fd, uint64_t, hlthunk_cs_in *, hlthunk_cs_out *) {
    return refused(Call("staged_command_submission", fd, Needs::compute), EPERM);
}
SOFTGAUDI_API int hlthunk_staged_command_submission_timeout(int fd, uint64_t, hlthunk_cs_in *, hlthunk_cs_out *,
                                                            uint32_t) {
    return refused(Call("staged_command_submission_timeout", fd, Needs::compute), EPERM);
}
SOFTGAUDI_API int hlthunk_staged_command_submission_encaps_signals(int fd, uint64_t, hlthunk_cs_in *,
                                                                   hlthunk_cs_out *) {
    return refused(Call("staged_command_submission_encaps_signals", fd, Needs::compute), EPERM);
}
SOFTGAUDI_API int hlthunk_wait_for_multi_cs(int fd, hlthunk_wait_multi_cs_in *in, hlthunk_wait_multi_cs_out *out) {
    const Call call("wait_for_multi_cs", fd, Needs::compute);
    return in && out ? refused(call, EPERM) : fail(EINVAL);
}
SOFTGAUDI_API int hlthunk_wait_for_multi_cs_with_timestamp(int fd, hlthunk_wait_multi_cs_in *in,
                                                           hlthunk_wait_multi_cs_out *out, uint64_t *timestamp) {
    const Call call("wait_for_multi_cs_with_timestamp", fd, Needs::compute);
    return in && out && timestamp ? refused(call, EPERM) : fail(EINVAL);
}
SOFTGAUDI_API int hlthunk_wait_for_collective_signal(int fd, hlthunk_wait_in *, hlthunk_wait_out *) {
    return refused(Call("wait_for_collective_signal", fd, Needs::compute), EINVAL);
}
SOFTGAUDI_API int hlthunk_wait_for_collective_signal_timeout(int fd, hlthunk_wait_in *, hlthunk_wait_out *, uint32_t) {
    return refused(Call("wait_for_collective_signal_timeout", fd, Needs::compute), EINVAL);
}

// Reserved signals exist in the driver, but are not modelled.
SOFTGAUDI_API int hlthunk_reserve_encaps_signals(int fd, hlthunk_sig_res_in *, hlthunk_sig_res_out *) {
    return unmodelled("reserve_encaps_signals", Call("reserve_encaps_signals", fd, Needs::compute), EINVAL);
}
SOFTGAUDI_API int hlthunk_unreserve_encaps_signals(int fd, reserve_sig_handle *, uint32_t *) {
    return unmodelled("unreserve_encaps_signals", Call("unreserve_encaps_signals", fd, Needs::compute), EINVAL);
}
SOFTGAUDI_API int hlthunk_wait_for_reserved_encaps_signals(int fd, hlthunk_wait_in *, hlthunk_wait_out *) {
    return unmodelled("wait_for_reserved_encaps_signals", Call("wait_for_reserved_encaps_signals", fd, Needs::compute),
                      EINVAL);
}
SOFTGAUDI_API int hlthunk_wait_for_reserved_encaps_collective_signals(int fd, hlthunk_wait_in *, hlthunk_wait_out *) {
    return unmodelled("wait_for_reserved_encaps_collective_signals",
                      Call("wait_for_reserved_encaps_collective_signals", fd, Needs::compute), EINVAL);
}

// The engines' own processors are not modelled.
SOFTGAUDI_API int hlthunk_engine_cores_set_mode(int fd, const uint32_t *core_ids, uint32_t num_cores,
                                                uint32_t core_mode) {
    constexpr uint32_t kCores = 69;
    const Call call("engine_cores_set_mode", fd, Needs::compute);
    if (!core_ids || num_cores == 0 || num_cores > kCores ||
        (core_mode != HL_ENGINE_CORE_HALT && core_mode != HL_ENGINE_CORE_RUN))
        return fail(EINVAL);
    return unmodelled("engine_cores_set_mode", call, EPERM);
}
SOFTGAUDI_API int hlthunk_engines_command(int fd, const uint32_t *engine_ids, uint32_t num_engines,
                                          hl_engine_command engine_command) {
    const Call call("engines_command", fd, Needs::compute);
    if (!engine_ids || num_engines == 0 || engine_command < HL_ENGINE_CORE_HALT || engine_command > HL_ENGINE_RESUME)
        return fail(EINVAL);
    return unmodelled("engines_command", call, EPERM);
}

// Firmware is not modelled.
SOFTGAUDI_API int hlthunk_get_sec_attest_info(int fd, uint32_t, hlthunk_sec_attest_info *info) {
    const Call call("get_sec_attest_info", fd, Needs::working_card);
    return info ? unmodelled("get_sec_attest_info", call, EOPNOTSUPP) : fail(EINVAL);
}
SOFTGAUDI_API int hlthunk_fw_send_generic_request(int fd, void *buffer, uint32_t, uint32_t) {
    const Call call("fw_send_generic_request", fd, Needs::working_card);
    return buffer ? unmodelled("fw_send_generic_request", call, EOPNOTSUPP) : fail(EINVAL);
}

// debugfs belongs to the kernel driver.
SOFTGAUDI_API int hlthunk_debugfs_open(int fd, hlthunk_debugfs *debugfs) {
    const Call call("debugfs_open", fd, Needs::anything);
    return debugfs ? unmodelled("debugfs_open", call, ENOENT) : fail(EINVAL);
}
SOFTGAUDI_API int hlthunk_debugfs_read(hlthunk_debugfs *, uint64_t, uint32_t *) {
    return unmodelled("debugfs_read", Call("debugfs_read"), EBADF);
}
SOFTGAUDI_API int hlthunk_debugfs_write(hlthunk_debugfs *, uint64_t, uint32_t) {
    return unmodelled("debugfs_write", Call("debugfs_write"), EBADF);
}
SOFTGAUDI_API int hlthunk_debugfs_close(hlthunk_debugfs *) {
    return unmodelled("debugfs_close", Call("debugfs_close"), EBADF);
}

// The profiler is a library of its own; without it the real library returns -1 too.
SOFTGAUDI_API int hlthunk_profiler_start(int fd) {
    const Call call("profiler_start", fd, Needs::anything);
    return -1;
}
SOFTGAUDI_API int hlthunk_profiler_stop(int fd) {
    const Call call("profiler_stop", fd, Needs::anything);
    return -1;
}
SOFTGAUDI_API int hlthunk_profiler_get_trace(int fd, void *, uint64_t *, uint64_t *) {
    const Call call("profiler_get_trace", fd, Needs::anything);
    return -1;
}
SOFTGAUDI_API void hlthunk_profiler_destroy() { const Call call("profiler_destroy"); }

// The vendor withdrew these: they fail in every library.
SOFTGAUDI_API int hlthunk_deprecated_func1(int fd, uint64_t, uint64_t, uint32_t *, uint64_t *) {
    const Call call("deprecated_func1", fd, Needs::anything);
    return fail(EPERM);
}
SOFTGAUDI_API int hlthunk_deprecated_func2(int fd, uint32_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) {
    const Call call("deprecated_func2", fd, Needs::anything);
    return fail(EPERM);
}
SOFTGAUDI_API int hlthunk_deprecated_func3(int fd, uint32_t, uint64_t *) {
    const Call call("deprecated_func3", fd, Needs::anything);
    return fail(EPERM);
}
