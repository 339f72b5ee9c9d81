// SPDX-License-Identifier: BSD-3-Clause
#include "conversation.h"

#include "printed.h"

#include <cstdlib>

namespace e2e {

const char *name(Operation operation) {
    constexpr std::array names = {"tag", "am", "put", "get", "stream"};
    return names[static_cast<unsigned>(operation)];
}

void require(bool condition, const char *failure) {
    if (!condition)
        throw Failure(failure);
}

ucp_context_h init_ucp(std::uint64_t features) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = features;
    ucp_context_h context = nullptr;
    check(ucp_init(&params, nullptr, &context), "ucp_init");
    return context;
}

void run_pair(const std::function<void(Side &, bool first)> &conversation, const Options &options) {
    const Printed printed;
    const Ended ended = run_in_two_processes([&](Pipe &pipe, bool first) {
        if (!first)
            for (const auto &[variable, value] : options.second_environment)
                setenv(variable.c_str(), value.c_str(), 1);
        if (options.before)
            options.before(first);
        Side side(pipe, options);
        conversation(side, first);
        side.meet();
    });
    EXPECT_EQ(ended.problem, "");
    EXPECT_EQ(printed.complaints().empty(), !options.complaints) << printed.text();
    EXPECT_TRUE(ended.second_good) << "the second side failed";
}

namespace {

ucp_request_param_t make_param(const Memory &memory) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
    param.memh = memory.handle();
    return param;
}

void expect_same(const std::vector<char> &got, const std::vector<char> &expected, Operation operation) {
    if (got != expected)
        throw Failure(std::string(name(operation)) + ": wrong bytes at size " + std::to_string(expected.size()));
}

} // namespace

void exchange(Side &side, bool first, Operation operation, Memory &memory, std::size_t size, bool with_handle,
              const std::function<void()> &watch) {
    const auto meet = [&] {
        side.meet();
        if (!watch)
            return;
        if (first)
            watch();
        side.meet();
    };
    const std::vector<char> expected = pattern(size, static_cast<unsigned>(size) + 1);
    ucp_request_param_t param{};
    if (with_handle)
        param = make_param(memory);
    const bool sends = first || operation == Operation::put || operation == Operation::get;
    if (first != (operation == Operation::get))
        memory.write(expected);
    else
        memory.write(std::vector<char>(size, 0));
    meet();
    switch (operation) {
    case Operation::tag:
        if (sends) {
            side.finish(ucp_tag_send_nbx(side.peer(), memory.data(), size, 42, &param), "tag send");
        } else {
            side.finish(ucp_tag_recv_nbx(side.worker(), memory.data(), size, 42, ~0ull, &param), "tag receive");
        }
        break;
    case Operation::stream:
        if (sends) {
            side.finish(ucp_stream_send_nbx(side.peer(), memory.data(), size, &param), "stream send");
        } else if (size != 0) {
            std::size_t length = 0;
            ucp_request_param_t receive = param;
            receive.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
            receive.flags = UCP_STREAM_RECV_FLAG_WAITALL;
            side.finish(ucp_stream_recv_nbx(side.peer(), memory.data(), size, &length, &receive), "stream receive");
        }
        break;
    case Operation::am:
        if (sends) {
            const char header[] = "header";
            side.finish(ucp_am_send_nbx(side.peer(), 7, header, sizeof header, memory.data(), size, &param), "am send");
        } else {
            while (side.messages().empty())
                side.progress();
            Side::Message message = std::move(side.messages().back());
            side.messages().clear();
            if (message.length != size)
                throw Failure("the active message has another length");
            if (message.data)
                side.finish(ucp_am_recv_data_nbx(side.worker(), message.data, memory.data(), size, &param),
                            "am receive");
            else
                memory.write(message.bytes);
        }
        break;
    case Operation::put:
    case Operation::get: {
        const Place remote = side.trade(memory.place());
        if (first) {
            const RemoteKey key = unpack_key(side.peer(), remote.key);
            side.finish(operation == Operation::put
                            ? ucp_put_nbx(side.peer(), memory.data(), size, remote.address, key.get(), &param)
                            : ucp_get_nbx(side.peer(), memory.data(), size, remote.address, key.get(), &param),
                        "put or get");
            side.flush(side.peer());
        }
        break;
    }
    }
    meet();
    expect_same(memory.read(size), expected, operation);
}

void converse(const Options &options) {
    run_pair(
        [&](Side &side, bool first) {
            constexpr std::size_t kLargest = (2 << 20) + 1;
            Memory memory(side, UCS_MEMORY_TYPE_GAUDI, kLargest);
            for (const Operation operation : kOperations)
                for (const std::size_t size : {std::size_t{1}, std::size_t{4095}, std::size_t{65536}, kLargest})
                    exchange(side, first, operation, memory, size, size % 2 == 0);
        },
        options);
}

} // namespace e2e
