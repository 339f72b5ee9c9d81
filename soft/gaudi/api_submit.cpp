// SPDX-License-Identifier: BSD-3-Clause
// Exported functions: command submission, waiting, interrupts.
#include "call.h"

using namespace softgaudi;

namespace {

constexpr uint64_t kNoSequence = UINT64_MAX;
// Flags of submissions other than plain command buffers; each kind has its own function.
constexpr uint32_t kStagedFlag = 0x40, kOtherKinds = 0x1F80E;
constexpr uint32_t kSignalObject = 85; // the first sync object that the driver reserves for signals
constexpr uint32_t kSyncObjectOffset = 0x4100000;

std::span<const hl_cs_chunk> chunks(void *array, uint32_t count) {
    return {static_cast<const hl_cs_chunk *>(array), count};
}

int submit(const Call &call, hlthunk_cs_in *in, hlthunk_cs_out *out, uint32_t timeout_sec) {
    // A refusal leaves the caller's result unchanged.
    if (!in || !out)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    if ((in->flags & kStagedFlag) != 0)
        return fail(EPERM);
    if ((in->flags & kOtherKinds) != 0)
        return fail(EINVAL);
    if (in->num_chunks_execute == 0 || in->num_chunks_execute > HL_MAX_JOBS_PER_CS ||
        in->num_chunks_restore > HL_MAX_JOBS_PER_CS)
        return fail(EINVAL);
    if (!in->chunks_execute || (in->num_chunks_restore != 0 && !in->chunks_restore))
        return fail(EFAULT);
    Card &card = call.card();
    Card::Submission submission;
    submission.flags = in->flags;
    submission.timeout_ns = uint64_t{timeout_sec} * 1'000'000'000;
    if ((in->flags & HL_CS_FLAGS_FORCE_RESTORE) != 0 && in->num_chunks_restore != 0) {
        submission.chunks = chunks(in->chunks_restore, in->num_chunks_restore);
        uint64_t seq = 0;
        if (const int error = card.submit(submission, seq))
            return fail(-error);
        uint32_t status = 0;
        if (card.wait(seq, UINT64_MAX, status, nullptr) != 0)
            return fail(ENOEXEC);
    }
    submission.chunks = chunks(in->chunks_execute, in->num_chunks_execute);
    submission.hang = call.hang();
    if (call.timeout_ns() != 0)
        submission.timeout_ns = call.timeout_ns();
    submission.skip = call.skip();
    if (const int error = card.submit(submission, out->seq))
        return fail(-error);
    out->status = 0;
    out->sob_count_before_submission = 0;
    return 0;
}

int wait(const Call &call, uint64_t seq, uint64_t timeout_us, uint32_t *status, uint64_t *timestamp) {
    if (!status)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    const Behaviour &behaviour = call.card().behaviour();
    if (const int refused = call.control() ? behaviour.wait_0_control : behaviour.wait_0_compute; seq == 0 && refused)
        return fail(refused);
    if (call.control() && seq != 0)
        return fail(ENOTTY);
    return result(call.card().wait(seq, timeout_us, *status, timestamp));
}

int signal(const Call &call, hlthunk_signal_in *in, hlthunk_signal_out *out, uint32_t timeout_sec) {
    if (!in || !out)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    hl_cs_chunk chunk{};
    chunk.queue_index = in->queue_index;
    Card::Submission submission;
    submission.chunks = {&chunk, 1};
    submission.flags = in->flags;
    submission.timeout_ns = uint64_t{timeout_sec} * 1'000'000'000;
    submission.kind = Job::Kind::signal;
    *out = {};
    if (const int error = call.card().submit(submission, out->seq))
        return fail(-error);
    const CardLock lock(call.card());
    out->sob_base_addr_offset = kSyncObjectOffset + 4 * kSignalObject;
    out->sob_count_before_submission = static_cast<uint16_t>(call.card().context().signals++);
    return 0;
}

int wait_for_signal(const Call &call, hlthunk_wait_in *in, hlthunk_wait_out *out, uint32_t timeout_sec) {
    if (!in || !out || !in->hlthunk_wait_for_signal)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    const auto *data = reinterpret_cast<const hlthunk_wait_for_signal_data *>(in->hlthunk_wait_for_signal);
    if (in->num_wait_for_signal != 1 || data->signal_seq_nr != 1 || !data->signal_seq_arr)
        return fail(EINVAL);
    Card &card = call.card();
    const uint64_t awaited = data->signal_seq_arr[0];
    *out = {kNoSequence, 0};
    {
        const CardLock lock(card);
        const Slot &slot = card.context().slots[awaited % kWindow];
        if (awaited == 0 || awaited >= card.context().next_seq)
            return fail(EINVAL);
        if (slot.seq.load() == awaited && !slot.signal)
            return fail(EINVAL);
        // A completed signal needs no wait: nothing is submitted, and the sequence number stays 0.
        if (slot.seq.load() != awaited || slot.status.load() != SlotStatus::running)
            return 0;
    }
    hl_cs_chunk chunk{};
    chunk.queue_index = data->queue_index;
    Card::Submission submission;
    submission.chunks = {&chunk, 1};
    submission.flags = in->flags;
    submission.timeout_ns = uint64_t{timeout_sec} * 1'000'000'000;
    submission.kind = Job::Kind::wait;
    submission.awaited = awaited;
    return result(card.submit(submission, out->seq));
}

int wait_interrupt(const Call &call, const void *address, uint64_t target, uint32_t interrupt, uint64_t timeout_us,
                   uint32_t *status, uint64_t *timestamp) {
    if (!status || !address)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    return result(call.card().wait_interrupt(address, {}, target, interrupt, timeout_us, *status, timestamp));
}

/// Offset, in the node's file, of element `index` of a buffer.
std::optional<uint64_t> counter_of(Card &card, uint64_t handle, uint64_t index, bool timestamps) {
    const CardLock lock(card);
    const Buffer *buffer = card.find_buffer(handle);
    if (!buffer || buffer->timestamps != timestamps || index >= buffer->size / sizeof(uint64_t))
        return {};
    return handle + index * sizeof(uint64_t);
}

int wait_interrupt_by_handle(const Call &call, uint64_t handle, uint64_t index, uint64_t target, uint32_t interrupt,
                             uint64_t timeout_us, uint32_t *status, uint64_t *timestamp) {
    if (!status)
        return fail(EINVAL);
    if (!call)
        return fail(call.error());
    const auto counter = counter_of(call.card(), handle, index, false);
    if (!counter)
        return fail(EINVAL);
    return result(call.card().wait_interrupt(nullptr, counter, target, interrupt, timeout_us, *status, timestamp));
}

} // namespace

SOFTGAUDI_API int hlthunk_command_submission(int fd, hlthunk_cs_in *in, hlthunk_cs_out *out) {
    return submit(Call("command_submission", fd, Needs::compute), in, out, 0);
}

SOFTGAUDI_API int hlthunk_command_submission_timeout(int fd, hlthunk_cs_in *in, hlthunk_cs_out *out,
                                                     uint32_t timeout_sec) {
    return submit(Call("command_submission_timeout", fd, Needs::compute), in, out, timeout_sec);
}

SOFTGAUDI_API int hlthunk_wait_for_cs(int fd, uint64_t seq, uint64_t timeout_us, uint32_t *status) {
    return wait(Call("wait_for_cs", fd, Needs::anything), seq, timeout_us, status, nullptr);
}

SOFTGAUDI_API int hlthunk_wait_for_cs_with_timestamp(int fd, uint64_t seq, uint64_t timeout_us, uint32_t *status,
                                                     uint64_t *timestamp) {
    if (!timestamp)
        return fail(EINVAL);
    return wait(Call("wait_for_cs_with_timestamp", fd, Needs::anything), seq, timeout_us, status, timestamp);
}

SOFTGAUDI_API int hlthunk_signal_submission(int fd, hlthunk_signal_in *in, hlthunk_signal_out *out) {
    return signal(Call("signal_submission", fd, Needs::compute), in, out, 0);
}

SOFTGAUDI_API int hlthunk_signal_submission_timeout(int fd, hlthunk_signal_in *in, hlthunk_signal_out *out,
                                                    uint32_t timeout_sec) {
    return signal(Call("signal_submission_timeout", fd, Needs::compute), in, out, timeout_sec);
}

SOFTGAUDI_API int hlthunk_wait_for_signal(int fd, hlthunk_wait_in *in, hlthunk_wait_out *out) {
    return wait_for_signal(Call("wait_for_signal", fd, Needs::compute), in, out, 0);
}

SOFTGAUDI_API int hlthunk_wait_for_signal_timeout(int fd, hlthunk_wait_in *in, hlthunk_wait_out *out,
                                                  uint32_t timeout_sec) {
    return wait_for_signal(Call("wait_for_signal_timeout", fd, Needs::compute), in, out, timeout_sec);
}

SOFTGAUDI_API int hlthunk_cs_flush_pci_hbw_writes(int fd) {
    const Call call("cs_flush_pci_hbw_writes", fd, Needs::compute);
    if (!call)
        return fail(call.error());
    const Behaviour &behaviour = call.card().behaviour();
    if (behaviour.flush != 0)
        return fail(behaviour.flush);
    if (!behaviour.flush_works)
        return 0;
    std::vector<uint32_t> handles;
    uint64_t context = 0;
    {
        const CardLock lock(call.card());
        context = call.card().context().id.load();
        if (call.card().config().quirks.posted)
            handles = call.card().device_handles();
    }
    call.card().blocks().flush(context, handles);
    return 0;
}

SOFTGAUDI_API int hlthunk_wait_for_interrupt(int fd, void *addr, uint64_t target_value, uint32_t interrupt_id,
                                             uint64_t timeout_us, uint32_t *status) {
    return wait_interrupt(Call("wait_for_interrupt", fd, Needs::compute), addr, target_value, interrupt_id, timeout_us,
                          status, nullptr);
}

SOFTGAUDI_API int hlthunk_wait_for_interrupt_with_timestamp(int fd, void *addr, uint64_t target_value,
                                                            uint32_t interrupt_id, uint64_t timeout_us,
                                                            uint32_t *status, uint64_t *timestamp) {
    if (!timestamp)
        return fail(EINVAL);
    return wait_interrupt(Call("wait_for_interrupt_with_timestamp", fd, Needs::compute), addr, target_value,
                          interrupt_id, timeout_us, status, timestamp);
}

SOFTGAUDI_API int hlthunk_wait_for_interrupt_by_handle(int fd, uint64_t cq_counters_handle, uint64_t cq_counters_offset,
                                                       uint64_t target_value, uint32_t interrupt_id,
                                                       uint64_t timeout_us, uint32_t *status) {
    return wait_interrupt_by_handle(Call("wait_for_interrupt_by_handle", fd, Needs::compute), cq_counters_handle,
                                    cq_counters_offset, target_value, interrupt_id, timeout_us, status, nullptr);
}

SOFTGAUDI_API int hlthunk_wait_for_interrupt_by_handle_with_timestamp(int fd, uint64_t cq_counters_handle,
                                                                      uint64_t cq_counters_offset,
                                                                      uint64_t target_value, uint32_t interrupt_id,
                                                                      uint64_t timeout_us, uint32_t *status,
                                                                      uint64_t *timestamp) {
    if (!timestamp)
        return fail(EINVAL);
    return wait_interrupt_by_handle(Call("wait_for_interrupt_by_handle_with_timestamp", fd, Needs::compute),
                                    cq_counters_handle, cq_counters_offset, target_value, interrupt_id, timeout_us,
                                    status, timestamp);
}

SOFTGAUDI_API int hlthunk_register_timestamp_interrupt(int fd, uint32_t interrupt_id, uint64_t cq_counters_handle,
                                                       uint64_t cq_counters_offset, uint64_t target_value,
                                                       uint64_t timestamp_handle, uint64_t timestamp_offset) {
    const Call call("register_timestamp_interrupt", fd, Needs::compute);
    if (!call)
        return fail(call.error());
    const auto counter = counter_of(call.card(), cq_counters_handle, cq_counters_offset, false);
    const auto record = counter_of(call.card(), timestamp_handle, timestamp_offset, true);
    if (!counter || !record)
        return fail(EINVAL);
    const CardLock lock(call.card());
    return result(call.card().register_timestamp(interrupt_id, *counter, target_value, *record));
}
