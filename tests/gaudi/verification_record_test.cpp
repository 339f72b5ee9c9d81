// SPDX-License-Identifier: BSD-3-Clause
#include "gaudi.h"

#include "gaudi/card/settings.h"
#include "gaudi/card/verification_record.h"
#include "gaudi/copy/cs_engine.h"

#include <gmock/gmock.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>
#include <memory>
#include <sstream>

namespace gaudi::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// A card of a libhl-thunk without a record beside it, and a user without one.
class Record : public GaudiTest {
protected:
    Record() {
        char name[] = "/dev/shm/record-test-XXXXXX";
        m_root = mkdtemp(name);
        fs::create_directory(beside().parent_path());
        fs::copy_file(SOFTGAUDI_LIBRARY, library());
        set("GAUDI_THUNK", library());
        set("XDG_CACHE_HOME", m_root + "/cache");
        set("SOFTGAUDI_CARDS", "1");
    }
    ~Record() override {
        std::error_code ignored;
        fs::remove_all(m_root, ignored);
    }

    std::string library() const { return m_root + "/lib/libhl-thunk.so"; }
    fs::path beside() const { return m_root + "/lib/ucx-gaudi-verified"; }
    fs::path user() const { return m_root + "/cache/ucx-gaudi"; }
    static fs::path write(const fs::path &directory, const std::string &text, const char *name = "verified-a.json") {
        fs::create_directories(directory);
        std::ofstream(directory / name) << text;
        return directory / name;
    }
    static std::string text(bool held = true, unsigned seconds = 60, const std::string &driver = card_driver(),
                            const std::string &model = "HL225 (1020, revision 1)") {
        return R"({"format": "ucx-gaudi verification record 1", "model": ")" + model + R"(", "driver": ")" + driver +
               R"(", "firmware": "softgaudi", "completion_flag": {"order_held": )" + (held ? "true" : "false") +
               R"(, "soak_seconds": )" + std::to_string(seconds) + "}}";
    }
    static std::string card_driver() { return card().versions().driver; }
    static FoundRecords find() { return find_records(card().library(), card().versions()); }
    static CompletionDefault chosen() { return choose_completion(find(), card().versions()); }
    static bool engine_uses_flags() {
        const auto engine = value(start_engine(card()));
        return dynamic_cast<CsEngine &>(*engine).uses_completion_flags();
    }
    const std::string &root() const { return m_root; }

private:
    std::string m_root;
};

TEST_F(Record, versions_name_model_library_and_firmware) {
    EXPECT_EQ(card().versions().model, "HL225 (1020, revision 1)");
    EXPECT_THAT(card().versions().driver, StartsWith("libhl-thunk "));
    EXPECT_EQ(card().versions().firmware, "softgaudi");
}

TEST_F(Record, absent_record_means_the_driver_without_a_line) {
    EXPECT_FALSE(chosen().by_flag);
    EXPECT_EQ(chosen().reason, "no verification record for driver " + card_driver() +
                                   " and firmware softgaudi; ucx_gaudi verify makes one");
    EXPECT_THAT(find().ignored, IsEmpty());
    EXPECT_FALSE(engine_uses_flags());
}

TEST_F(Record, record_beside_the_library_allows_the_flag) {
    const fs::path path = write(beside(), text());
    EXPECT_TRUE(chosen().by_flag);
    EXPECT_EQ(chosen().reason, path.string() + " says that the order held for 60 s");
    EXPECT_TRUE(engine_uses_flags());
}

TEST_F(Record, record_of_the_user_allows_the_flag) {
    write(user(), text());
    EXPECT_TRUE(engine_uses_flags());
}

TEST_F(Record, record_in_the_home_directory_is_found) {
    unsetenv("XDG_CACHE_HOME");
    set("HOME", root());
    write(root() + "/.cache/ucx-gaudi", text());
    EXPECT_TRUE(chosen().by_flag);
    set("XDG_CACHE_HOME", "relative"); // as the XDG specification has it
    EXPECT_TRUE(chosen().by_flag);
}

TEST_F(Record, record_of_the_user_counts_before_the_one_beside_the_library) {
    write(beside(), text());
    const fs::path path = write(user(), text(false));
    EXPECT_FALSE(chosen().by_flag);
    EXPECT_EQ(chosen().reason, path.string() + " says that a completion flag came before its data");
    EXPECT_FALSE(engine_uses_flags());
}

TEST_F(Record, short_soak_is_not_enough) {
    const fs::path path = write(user(), text(true, 59));
    EXPECT_FALSE(chosen().by_flag);
    EXPECT_EQ(chosen().reason, path.string() + " says that the order held for 59 s, and 60 s are needed");
}

TEST_F(Record, malformed_record_is_ignored_with_a_line) {
    for (const std::string &bad :
         {std::string(), std::string("{"), std::string("[]"), std::string("{}"), std::string(R"({"format": 1})"),
          text().substr(0, 100), std::string(text()).replace(text().find("true"), 4, "1   ")}) {
        const fs::path path = write(user(), bad);
        EXPECT_FALSE(chosen().by_flag) << bad;
        EXPECT_THAT(find().ignored, ElementsAre("the verification record " + path.string() +
                                                " is ignored: it is malformed; run ucx_gaudi verify again"));
    }
}

TEST_F(Record, record_that_is_no_file_is_ignored_with_a_line) {
    fs::create_directories(user());
    const fs::path path = user() / "verified-pipe.json";
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_THAT(find().ignored,
                ElementsAre("the verification record " + path.string() + " is ignored: it is no regular file"));
    write(user(), std::string(65 << 10, ' '), "verified-pipe2.json");
    EXPECT_THAT(find().ignored, ElementsAre(HasSubstr("no regular file"),
                                            HasSubstr("is ignored: it has 66560 bytes, more than any record")));
}

TEST_F(Record, record_of_another_version_is_ignored_with_a_line) {
    const fs::path path = write(user(), text(true, 60, "1.19.0"));
    write(user(), text(true, 60, "1.19.0", "HL325 (1060, revision 1)"), "verified-b.json"); // another card's
    EXPECT_FALSE(chosen().by_flag);
    EXPECT_THAT(find().ignored,
                ElementsAre("the verification record " + path.string() +
                            " is ignored: it is for driver 1.19.0 and firmware softgaudi, and this card has driver " +
                            card_driver() + " and firmware softgaudi; run ucx_gaudi verify again"));
}

TEST_F(Record, record_of_another_user_is_ignored_with_a_line) {
    const fs::path path = write(user(), text());
    std::string owner = "12345";
    if (geteuid() != 0 || chown(path.c_str(), 12345, 12345) != 0) { // a file of root's instead
        fs::remove(path);
        fs::create_symlink("/etc/passwd", path);
        owner = "0";
    }
    EXPECT_FALSE(chosen().by_flag);
    EXPECT_THAT(find().ignored, ElementsAre("the verification record " + path.string() +
                                            " is ignored: it belongs to another user, " + owner));
}

TEST_F(Record, record_beside_the_library_may_be_its_owners) {
    write(beside(), text());
    if (geteuid() == 0) { // else the library is this user's already
        ASSERT_EQ(chown((beside() / "verified-a.json").c_str(), 12345, 12345), 0);
        EXPECT_THAT(find().ignored, ElementsAre(HasSubstr("it belongs to another user, 12345")));
        ASSERT_EQ(chown(library().c_str(), 12345, 12345), 0);
    }
    EXPECT_TRUE(chosen().by_flag);
}

TEST_F(Record, written_record_is_read_and_replaced) {
    EXPECT_FALSE(chosen().by_flag);
    const fs::path first = value(write_record({card().versions(), true, 60, {}}));
    EXPECT_EQ(first.parent_path(), user());
    EXPECT_TRUE(chosen().by_flag);
    EXPECT_EQ(value(write_record({card().versions(), false, 3, {}})), first);
    EXPECT_FALSE(chosen().by_flag);
    EXPECT_THAT(find().ignored, IsEmpty());
    EXPECT_EQ(std::distance(fs::directory_iterator(user()), fs::directory_iterator()), 1) << "a file was left behind";
}

TEST_F(Record, record_that_cannot_be_written_says_where) {
    std::ofstream(root() + "/cache") << "a file";
    EXPECT_THAT(text_of(write_record({card().versions(), true, 60, {}})),
                StartsWith("cannot write " + user().string() + ": "));
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    EXPECT_EQ(text_of(write_record({card().versions(), true, 60, {}})),
              "the verification record has no place: neither XDG_CACHE_HOME nor HOME names an absolute path");
}

TEST_F(Record, settings_count_before_records) {
    write(beside(), text());
    change_settings([](Settings &settings) { settings.completion = CompletionMode::driver; });
    EXPECT_FALSE(engine_uses_flags());
}

TEST_F(Record, flag_setting_needs_no_record) {
    change_settings([](Settings &settings) { settings.completion = CompletionMode::flag; });
    EXPECT_TRUE(engine_uses_flags());
}

TEST_F(Record, set_uid_program_reads_none) {
    EXPECT_EQ(choose_completion({.record = {}, .ignored = {}, .secure = true}, card().versions()).reason,
              "a set-uid program reads no verification record");
    write(beside(), text());
    const std::string reader = root() + "/reader";
    fs::copy_file(RECORD_READER, reader);
    const auto output = [&] {
        const std::string command = reader + " " + library() + " 'HL225 (1020, revision 1)' '" + card_driver() +
                                    "' softgaudi > " + root() + "/out";
        EXPECT_EQ(std::system(command.c_str()), 0);
        std::ostringstream all;
        all << std::ifstream(root() + "/out").rdbuf();
        return all.str();
    };
    EXPECT_THAT(output(), StartsWith("flag: "));
    if (geteuid() != 0)
        return; // only root can make a program that is another user's
    ASSERT_EQ(chown(reader.c_str(), 12345, 12345), 0);
    ASSERT_EQ(chmod(reader.c_str(), 04755), 0);
    fs::permissions(root(), fs::perms::all);
    EXPECT_EQ(output(), "driver: a set-uid program reads no verification record\n");
}

} // namespace
} // namespace gaudi::test
