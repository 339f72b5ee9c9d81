// SPDX-License-Identifier: BSD-3-Clause
// The installed file: it exports what the real library exports and depends on nothing that a program lacks.
#include "functions.h"

#include <gmock/gmock.h>

#include <dlfcn.h>
#include <elf.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace {

/// The dynamic section and symbols of a shared library, read from its file.
class Elf {
public:
    explicit Elf(const char *path) {
        m_bytes.resize(std::filesystem::file_size(path));
        std::ifstream(path, std::ios::binary).read(m_bytes.data(), static_cast<std::streamsize>(m_bytes.size()));
        const auto header = at<Elf64_Ehdr>(0);
        for (unsigned i = 0; i < header.e_shnum; ++i)
            m_sections.push_back(at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
    }
    std::vector<std::string> dynamic(int64_t tag) const {
        std::vector<std::string> values;
        for (const Elf64_Dyn &entry : entries<Elf64_Dyn>(SHT_DYNAMIC))
            if (entry.d_tag == tag)
                values.push_back(text(SHT_DYNAMIC, entry.d_un.d_val));
        return values;
    }
    std::set<std::string> exports() const {
        std::set<std::string> names;
        for (const Elf64_Sym &symbol : entries<Elf64_Sym>(SHT_DYNSYM))
            if (symbol.st_shndx != SHN_UNDEF)
                names.insert(text(SHT_DYNSYM, symbol.st_name));
        return names;
    }
    bool has(uint32_t type) const { return section(type) != nullptr; }

private:
    template <class T>
    T at(uint64_t offset) const {
        T value{};
        std::memcpy(&value, m_bytes.data() + offset, sizeof value);
        return value;
    }
    const Elf64_Shdr *section(uint32_t type) const {
        for (const Elf64_Shdr &header : m_sections)
            if (header.sh_type == type)
                return &header;
        return nullptr;
    }
    template <class T>
    std::vector<T> entries(uint32_t type) const {
        std::vector<T> all;
        const Elf64_Shdr *header = section(type);
        for (uint64_t i = 0; header && i < header->sh_size / sizeof(T); ++i)
            all.push_back(at<T>(header->sh_offset + i * sizeof(T)));
        return all;
    }
    std::string text(uint32_t type, uint64_t offset) const {
        const Elf64_Shdr *header = section(type);
        return m_bytes.data() + m_sections.at(header->sh_link).sh_offset + offset;
    }

    std::vector<char> m_bytes;
    std::vector<Elf64_Shdr> m_sections;
};

const Elf &drop_in() {
    static const Elf elf(SOFTGAUDI_LIBRARY);
    return elf;
}

TEST(Artefact, symbols_are_exactly_the_hundred_functions_and_the_check_of_settings) {
    std::set<std::string> wanted;
    for (const std::string_view name : softgaudi::kFunctions)
        wanted.insert("hlthunk_" + std::string(name));
    ASSERT_EQ(wanted.size(), 100u);
    wanted.insert("softgaudi_check_settings"); // for ucx_gaudi run
    EXPECT_EQ(drop_in().exports(), wanted);
}

TEST(Artefact, soname_is_the_real_one_without_versions) {
    EXPECT_THAT(drop_in().dynamic(DT_SONAME), testing::ElementsAre("libhl-thunk.so"));
    EXPECT_FALSE(drop_in().has(SHT_GNU_verdef));
}

TEST(Artefact, dependencies_come_with_the_compiler) {
    std::set<std::string> allowed = {"libc.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libm.so.6",
                                     "ld-linux-x86-64.so.2"}; // the loader holds C's thread-local variables
#if defined(__SANITIZE_ADDRESS__)
    allowed.insert({"libasan.so.8", "libubsan.so.1"});
#elif defined(__SANITIZE_THREAD__)
    allowed.insert("libtsan.so.2");
#endif
    const auto needed = drop_in().dynamic(DT_NEEDED);
    EXPECT_FALSE(needed.empty());
    for (const std::string &name : needed)
        EXPECT_TRUE(allowed.contains(name)) << name;
    EXPECT_THAT(drop_in().dynamic(DT_RPATH), testing::IsEmpty());
    EXPECT_THAT(drop_in().dynamic(DT_RUNPATH), testing::IsEmpty());
}

TEST(Artefact, dlopen_now_resolves_every_symbol) {
    void *library = dlopen(SOFTGAUDI_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    for (const std::string_view name : softgaudi::kFunctions)
        EXPECT_NE(dlsym(library, ("hlthunk_" + std::string(name)).c_str()), nullptr) << name;
    EXPECT_EQ(dlclose(library), 0);
}

} // namespace
