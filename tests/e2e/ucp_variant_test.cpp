// SPDX-License-Identifier: BSD-3-Clause
// Exchanges through UCP under other settings: forced protocols, wakeup instead of polling, several threads, I/O vectors,
// memory that is mapped twice, several cards.
#include "conversation.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <thread>

using namespace e2e;

namespace {

class Exchange : public ::testing::Test {
protected:
    void set(const char *variable, const char *value) { setenv(variable, value, 1); }
};

TEST_F(Exchange, succeeds_with_default_transports) { converse(); }

TEST_F(Exchange, succeeds_eager_only) {
    set("UCX_RNDV_THRESH", "inf");
    set("UCX_TLS", "tcp,gaudi_cpy");
    converse();
}

TEST_F(Exchange, succeeds_rendezvous_only) {
    set("UCX_RNDV_THRESH", "0");
    set("UCX_TLS", "sm,gaudi_cpy");
    converse();
}

TEST_F(Exchange, succeeds_with_transport_alias_gaudi) {
    set("UCX_TLS", "tcp,gaudi");
    converse();
}

TEST_F(Exchange, succeeds_with_completion_by_driver) {
    set("UCX_GAUDI_CPY_COMPLETION", "driver");
    converse();
}

TEST_F(Exchange, succeeds_with_dmabuf_off) {
    set("UCX_GAUDI_COPY_DMABUF", "n");
    converse();
}

TEST_F(Exchange, succeeds_with_wakeup) { converse({.wakeup = true}); }

TEST_F(Exchange, succeeds_with_multithreaded_workers) { converse({.threads = true}); }

TEST_F(Exchange, succeeds_in_four_threads_at_once) {
    run_pair(
        [](Side &side, bool) {
            constexpr std::size_t kSize = (1 << 20) + 7;
            std::mutex mutex;
            std::string problem;
            std::vector<std::thread> threads;
            for (unsigned i = 0; i < 4; ++i)
                threads.emplace_back([&, i] {
                    try {
                        Memory from(side, UCS_MEMORY_TYPE_GAUDI, kSize), to(side, UCS_MEMORY_TYPE_GAUDI, kSize);
                        for (unsigned round = 0; round < 5; ++round) {
                            const std::vector<char> bytes = pattern(kSize, i * 100 + round);
                            from.write(bytes);
                            ucp_request_param_t param{};
                            ucs_status_ptr_t receive =
                                ucp_tag_recv_nbx(side.worker(), to.data(), kSize, i, ~0ull, &param);
                            side.finish(ucp_tag_send_nbx(side.self(), from.data(), kSize, i, &param), "send");
                            side.finish(receive, "receive");
                            if (to.read(kSize) != bytes)
                                throw Failure("wrong bytes in thread " + std::to_string(i));
                        }
                    } catch (const std::exception &error) {
                        const std::lock_guard guard(mutex);
                        problem = error.what();
                    }
                });
            for (std::thread &thread : threads)
                thread.join();
            if (!problem.empty())
                throw Failure(problem);
        },
        {.threads = true});
}

class IovExchange : public Exchange, public ::testing::WithParamInterface<Operation> {};

TEST_P(IovExchange, each_piece_arrives_at_its_address) {
    run_pair([](Side &side, bool first) {
        constexpr std::size_t kPiece = 100'003;
        Memory memory(side, UCS_MEMORY_TYPE_GAUDI, 4 * kPiece);
        const std::vector<char> bytes = pattern(4 * kPiece, 9);
        memory.write(first ? bytes : std::vector<char>(bytes.size(), 0));
        // Out of order, so that each piece must use its own address.
        std::array<ucp_dt_iov_t, 3> pieces = {{{memory.data() + 2 * kPiece, kPiece},
                                               {memory.data(), kPiece},
                                               {memory.data() + 3 * kPiece + 1, kPiece - 1}}};
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_FLAGS;
        param.datatype = ucp_dt_make_iov();
        side.meet();
        if (first) {
            side.finish(GetParam() == Operation::tag ? ucp_tag_send_nbx(side.peer(), pieces.data(), 3, 1, &param)
                        : GetParam() == Operation::am
                            ? ucp_am_send_nbx(side.peer(), 7, nullptr, 0, pieces.data(), 3, &param)
                            : ucp_stream_send_nbx(side.peer(), pieces.data(), 3, &param),
                        "send of pieces");
            return;
        }
        if (GetParam() == Operation::am) {
            while (side.messages().empty())
                side.progress();
            const Side::Message message = side.messages().back();
            if (!message.data)
                throw Failure("UCX sent a large active message eagerly");
            side.finish(ucp_am_recv_data_nbx(side.worker(), message.data, pieces.data(), 3, &param),
                        "receive of pieces");
        } else if (GetParam() == Operation::tag) {
            side.finish(ucp_tag_recv_nbx(side.worker(), pieces.data(), 3, 1, ~0ull, &param), "receive of pieces");
        } else {
            std::size_t length = 0;
            param.flags = UCP_STREAM_RECV_FLAG_WAITALL;
            side.finish(ucp_stream_recv_nbx(side.peer(), pieces.data(), 3, &length, &param), "receive of pieces");
        }
        std::vector<char> expected = bytes;
        std::fill(expected.begin() + kPiece, expected.begin() + 2 * kPiece, '\0');
        expected[3 * kPiece] = 0;
        if (memory.read(4 * kPiece) != expected)
            throw Failure("wrong bytes");
    });
}

INSTANTIATE_TEST_SUITE_P(, IovExchange, ::testing::Values(Operation::tag, Operation::am, Operation::stream),
                         [](const auto &one) { return std::string(name(one.param)); });

TEST_F(Exchange, succeeds_with_host_memory_without_copy_path) {
    set("SOFTGAUDI_MODEL", "gaudi3");
    run_pair([](Side &side, bool first) {
        Memory memory(side, UCS_MEMORY_TYPE_HOST, (2 << 20) + 1);
        for (const Operation operation : kOperations)
            for (const std::size_t size : {std::size_t{1}, std::size_t{65536}, std::size_t{(2 << 20) + 1}})
                exchange(side, first, operation, memory, size, size % 2 == 0);
    });
}

TEST_F(Exchange, succeeds_with_refused_export) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd=EINVAL");
    converse();
}

TEST_F(Exchange, fails_when_the_card_is_reset) {
    set("SOFTGAUDI_FAULTS", "command_submission#80=reset");
    run_pair(
        [](Side &side, bool first) {
            if (!first)
                return;
            Memory memory(side, UCS_MEMORY_TYPE_GAUDI, 4 << 20);
            const std::vector<char> bytes = pattern(4 << 20, 1);
            bool failed = false;
            for (unsigned i = 0; i < 200 && !failed; ++i) {
                try {
                    memory.write(bytes);
                } catch (const Failure &) {
                    failed = true;
                }
            }
            if (!failed)
                throw Failure("writes to a card in reset succeeded");
        },
        {.complaints = true});
}

TEST_F(Exchange, succeeds_with_memory_mapped_twice) {
    run_pair([](Side &side, bool first) {
        Memory whole(side, UCS_MEMORY_TYPE_GAUDI, 1 << 20);
        ucp_mem_map_params_t params{};
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        params.address = whole.data() + 777;
        params.length = 100'000;
        ucp_mem_h again = nullptr;
        check(ucp_mem_map(side.context(), &params, &again), "ucp_mem_map of a part");
        ucp_mem_attr_t attr{};
        attr.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE;
        check(ucp_mem_query(again, &attr), "ucp_mem_query");
        if (attr.mem_type != UCS_MEMORY_TYPE_GAUDI)
            throw Failure("part of Gaudi memory is not recognised");
        exchange(side, first, Operation::tag, whole, 1 << 20, false);
        check(ucp_mem_unmap(side.context(), again), "ucp_mem_unmap");
    });
}

TEST_F(Exchange, succeeds_on_four_cards_at_once) {
    // Two pairs of processes at once; each process opens its own card.
    const pid_t other = fork();
    converse();
    if (other == 0)
        _exit(HasFailure() ? 1 : 0);
    int status = 0;
    waitpid(other, &status, 0);
    EXPECT_EQ(status, 0);
}

class CardlessPeer : public Exchange {
protected:
    /// Exchanges Gaudi memory of the first side with host memory of the second, which has no card, in both directions.
    void exchange_with_cardless_peer(const char *transports) {
        set("UCX_TLS", transports);
        run_pair(
            [](Side &side, bool first) {
                constexpr std::size_t kLargest = (8 << 20) + 1;
                Memory memory(side, first ? UCS_MEMORY_TYPE_GAUDI : UCS_MEMORY_TYPE_HOST, kLargest);
                for (const bool turned : {false, true})
                    for (const Operation operation : kOperations)
                        for (const std::size_t size : {std::size_t{1}, std::size_t{4095}, std::size_t{65536}, kLargest})
                            exchange(side, first != turned, operation, memory, size, size % 2 == 0);
            },
            {.second_environment = {{"SOFTGAUDI_CARDS", "0"}}});
    }
};

TEST_F(CardlessPeer, exchanges_over_tcp) { exchange_with_cardless_peer("tcp,gaudi_cpy"); }

TEST_F(CardlessPeer, exchanges_over_shared_memory) { exchange_with_cardless_peer("sm,gaudi_cpy"); }

TEST_F(Exchange, succeeds_over_the_endpoint_to_itself) {
    run_pair([](Side &side, bool) {
        Memory one(side, UCS_MEMORY_TYPE_GAUDI, 3 << 20), other(side, UCS_MEMORY_TYPE_GAUDI, 3 << 20);
        const std::vector<char> bytes = pattern(3 << 20, 5);
        one.write(bytes);
        ucp_request_param_t param{};
        ucs_status_ptr_t receive = ucp_tag_recv_nbx(side.worker(), other.data(), bytes.size(), 3, ~0ull, &param);
        side.finish(ucp_tag_send_nbx(side.self(), one.data(), bytes.size(), 3, &param), "tag send");
        side.finish(receive, "tag receive");
        if (other.read(bytes.size()) != bytes)
            throw Failure("wrong bytes");
    });
}

} // namespace
