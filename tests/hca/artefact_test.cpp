// SPDX-License-Identifier: BSD-3-Clause
// The library as a file, and third-party programs on it.
#include "hca.h"

#include <dlfcn.h>
#include <spawn.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

using namespace hca;

extern char **environ;

namespace {

class Artefact : public HcaTest {
protected:
    /// Runs a program with its output in a file.
    class Program {
    public:
        Program(const std::string &output, std::vector<std::string> arguments) : m_output(output) {
            std::vector<char *> argv;
            for (std::string &argument : arguments)
                argv.push_back(argument.data());
            argv.push_back(nullptr);
            posix_spawn_file_actions_t actions;
            posix_spawn_file_actions_init(&actions);
            posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
            posix_spawn_file_actions_adddup2(&actions, 1, 2);
            EXPECT_EQ(posix_spawnp(&m_pid, argv[0], &actions, nullptr, argv.data(), environ), 0);
            posix_spawn_file_actions_destroy(&actions);
        }
        ~Program() {
            if (m_pid > 0) {
                kill(m_pid, SIGKILL);
                waitpid(m_pid, nullptr, 0);
            }
        }
        int join() {
            int status = 0;
            waitpid(m_pid, &status, 0);
            m_pid = -1;
            return status;
        }
        std::string text() const {
            std::ostringstream out;
            out << std::ifstream(m_output).rdbuf();
            return out.str();
        }

    private:
        pid_t m_pid = -1;
        std::string m_output;
    };

    /// Waits until a process of this machine listens on the port.
    static bool listening(uint16_t port) {
        char wanted[16];
        std::snprintf(wanted, sizeof wanted, ":%04X ", port);
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (std::chrono::steady_clock::now() < until) {
            for (const char *table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
                std::ifstream lines(table);
                for (std::string line; std::getline(lines, line);)
                    if (line.find(wanted) < 50 && line.find(" 0A ") != std::string::npos)
                        return true;
            }
            sched_yield();
        }
        return false;
    }
    void preload() {
        const char *already = getenv("LD_PRELOAD");
        set("LD_PRELOAD", already ? std::string(already) + ":" + SOFTHCA_LIBRARY : SOFTHCA_LIBRARY);
    }
    /// Runs two instances that exchange their addresses over a socket.
    void converse(const std::string &name, std::vector<std::string> options) {
        preload();
        const auto port = static_cast<uint16_t>(20'000 + getpid() % 20'000);
        std::vector<std::string> arguments = {name, "-p", std::to_string(port)};
        arguments.insert(arguments.end(), options.begin(), options.end());
        Program server(fabric() + "/server.txt", arguments);
        ASSERT_TRUE(listening(port));
        arguments.push_back("127.0.0.1");
        Program client(fabric() + "/client.txt", arguments);
        EXPECT_EQ(client.join(), 0) << client.text();
        EXPECT_EQ(server.join(), 0) << server.text();
        EXPECT_NE(client.text().find(" iters in "), std::string::npos) << client.text();
    }
};

TEST_F(Artefact, symbols_are_exactly_verbs_interposed_functions_and_the_check_of_settings) {
    unsetenv("LD_PRELOAD"); // the shell must start without the thread sanitizer
    FILE *pipe = popen(("nm -D --defined-only " SOFTHCA_LIBRARY), "r");
    ASSERT_NE(pipe, nullptr);
    std::set<std::string> others;
    std::set<std::string> versioned;
    std::array<char, 512> line;
    while (fgets(line.data(), line.size(), pipe)) {
        std::istringstream words(line.data());
        std::string address, type, name;
        words >> address >> type >> name;
        if (type == "A" || name.starts_with("__asan") || name.starts_with("__odr") || name.starts_with("__tsan"))
            continue;
        if (name.find("@@IBVERBS_") != std::string::npos)
            versioned.insert(name);
        else
            others.insert(name);
    }
    EXPECT_EQ(pclose(pipe), 0);
    EXPECT_EQ(others, (std::set<std::string>{"__xstat", "access", "softhca_check_settings", "stat"}));
    // The symbols that UCX's ib module uses.
    for (const char *name :
         {"ibv_create_comp_channel@@IBVERBS_1.0", "ibv_destroy_comp_channel@@IBVERBS_1.0",
          "ibv_open_device@@IBVERBS_1.1", "ibv_create_qp@@IBVERBS_1.1", "ibv_reg_mr@@IBVERBS_1.1",
          "ibv_reg_mr_iova@@IBVERBS_1.7", "ibv_reg_mr_iova2@@IBVERBS_1.8", "ibv_get_device_index@@IBVERBS_1.9",
          "ibv_query_ece@@IBVERBS_1.10", "ibv_set_ece@@IBVERBS_1.10", "_ibv_query_gid_ex@@IBVERBS_1.11",
          "ibv_reg_dmabuf_mr@@IBVERBS_1.12", "ibv_is_fork_initialized@@IBVERBS_1.13"})
        EXPECT_TRUE(versioned.contains(name)) << name;
}

TEST_F(Artefact, dlclose_keeps_the_library) {
    void *library = dlopen(SOFTHCA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    using List = ibv_device **(*)(int *);
    const auto list = reinterpret_cast<List>(dlsym(library, "ibv_get_device_list"));
    ASSERT_NE(list, nullptr);
    EXPECT_EQ(dlclose(library), 0);
    int count = 0;
    std::free(list(&count));
    EXPECT_EQ(count, 2);
}

TEST_F(Artefact, ibv_devinfo_prints_the_devices) {
    preload();
    Program program(fabric() + "/out.txt", {"ibv_devinfo", "-v"});
    EXPECT_EQ(program.join(), 0);
    const std::string text = program.text();
    EXPECT_NE(text.find("hca_id:\tsofthca0"), std::string::npos) << text;
    EXPECT_NE(text.find("hca_id:\tsofthca1"), std::string::npos);
    EXPECT_NE(text.find("PORT_ACTIVE (4)"), std::string::npos);
    EXPECT_NE(text.find("InfiniBand"), std::string::npos);
}

TEST_F(Artefact, ibv_devices_lists_the_devices) {
    preload();
    Program program(fabric() + "/out.txt", {"ibv_devices"});
    EXPECT_EQ(program.join(), 0);
    EXPECT_NE(program.text().find("softhca1"), std::string::npos);
}

TEST_F(Artefact, ibv_rc_pingpong_succeeds) { converse("ibv_rc_pingpong", {"-n", "200", "-c"}); }

TEST_F(Artefact, ibv_rc_pingpong_with_events_succeeds) { converse("ibv_rc_pingpong", {"-n", "200", "-e", "-c"}); }

TEST_F(Artefact, ibv_ud_pingpong_succeeds) { converse("ibv_ud_pingpong", {"-n", "200", "-e"}); }

TEST_F(Artefact, ibv_srq_pingpong_succeeds) { converse("ibv_srq_pingpong", {"-n", "200", "-e"}); }

} // namespace
