// SPDX-License-Identifier: BSD-3-Clause
#include "profile.h"

#include "common/parsing.h"
#include "os/format.h"
#include "state.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

namespace softgaudi {
namespace {

using Json = nlohmann::json; // used without its exceptions: every type is asked for first
using soft::Unexpected;
using Wrong = std::optional<std::string>; // what is wrong

const Json *find(const Json &object, std::string_view key) {
    if (!object.is_object())
        return nullptr;
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
}

std::string_view text_of(const Json &value) {
    const auto *text = value.get_ptr<const std::string *>();
    return text ? std::string_view(*text) : std::string_view();
}

/// "success" is 0; "errno 524" is one without a name.
std::optional<int> errno_of(const Json &value) {
    std::string_view text = text_of(value);
    soft::cut_prefix(text, "errno ");
    return text == "success" ? 0 : soft::errno_by_name(text);
}

bool read(const Json &value, uint64_t &to) {
    const auto *number = value.get_ptr<const Json::number_unsigned_t *>();
    if (number)
        to = *number;
    return number != nullptr;
}

bool read(const Json &value, bool &to) {
    const auto *flag = value.get_ptr<const bool *>();
    if (flag)
        to = *flag;
    return flag != nullptr;
}

bool read(const Json &value, int &to) {
    const auto error = errno_of(value);
    to = error.value_or(to);
    return error.has_value();
}

constexpr std::string_view kErrno = "success or the name of an errno";
constexpr std::string_view kFlag = "true or false";
constexpr std::string_view kBytes = "a number of bytes";
constexpr std::string_view kCount = "a number";

/// One measured fact of a step; `apply` returns whether the value could be used.
struct Fact {
    std::string_view step, name, expected;
    bool (*apply)(const Json &value, Profile &profile);
};

template <auto Member>
bool set(const Json &value, Profile &profile) {
    return read(value, profile.behaviour.*Member);
}

template <bool Quirks::*Quirk, bool When>
bool set_quirk(const Json &value, Profile &profile) {
    bool seen = false;
    if (!read(value, seen))
        return false;
    profile.quirks.*Quirk = seen == When;
    return true;
}

bool set_page(const Json &value, Profile &profile) {
    return read(value, profile.model.dram_page) && profile.model.dram_page != 0;
}

bool set_hint(const Json &value, Profile &profile) {
    profile.behaviour.hints_ignored = text_of(value) == "ignored";
    return profile.behaviour.hints_ignored || text_of(value) == "honoured" || read(value, profile.behaviour.hint);
}

bool set_taken_hint(const Json &value, Profile &profile) {
    return text_of(value) == "elsewhere" || read(value, profile.behaviour.taken_hint);
}

bool set_most_in_flight(const Json &value, Profile &profile) {
    uint64_t most = 0;
    if (!read(value, most) || most == 0 || most > kWindow)
        return false;
    profile.behaviour.most_in_flight = static_cast<uint32_t>(most);
    return true;
}

bool set_stale_without_flush(const Json &value, Profile &profile) {
    uint64_t stale = 0;
    if (!read(value, stale))
        return false;
    profile.quirks.posted = stale != 0;
    return true;
}

bool set_stale_with_flush(const Json &value, Profile &profile) {
    uint64_t stale = 0;
    if (!read(value, stale))
        return false;
    profile.behaviour.flush_works = stale == 0;
    return true;
}

bool set_submission(const Json &value, Profile &profile) {
    profile.model.user_queues = errno_of(value) == 0;
    return profile.model.user_queues || read(value, profile.behaviour.submission);
}

constexpr std::array kFacts = {
    Fact{"open", "second_open", kErrno, set<&Behaviour::second_open>},
    Fact{"open", "wait_0_compute_node", kErrno, set<&Behaviour::wait_0_compute>},
    Fact{"open", "wait_0_control_node", kErrno, set<&Behaviour::wait_0_control>},
    Fact{"open", "duplicate", kErrno, set<&Behaviour::duplicate>},
    Fact{"descriptors", "others_are_named_cards", kFlag, set_quirk<&Quirks::fallback, true>},
    Fact{"memory", "page_bytes", kBytes, set_page},
    Fact{"memory", "first_mapping_offset_bytes", kBytes, set<&Behaviour::first_offset>},
    Fact{"memory", "hint", "honoured, ignored, or the name of an errno", set_hint},
    Fact{"memory", "taken_hint", "elsewhere, or the name of an errno", set_taken_hint},
    Fact{"export", "whole", kErrno, set<&Behaviour::export_any>},
    Fact{"export", "part", kErrno, set<&Behaviour::export_part>},
    Fact{"export", "inside", kErrno, set<&Behaviour::export_inside>},
    Fact{"export", "too_long", kErrno, set<&Behaviour::export_too_long>},
    Fact{"export", "offset", kErrno, set<&Behaviour::export_offset>},
    Fact{"export", "unmap_while_exported", kErrno, set<&Behaviour::unmap_exported>},
    Fact{"export", "longest_bytes", kBytes, set<&Behaviour::bar_bytes>},
    Fact{"host", "odd_start", kErrno, set<&Behaviour::odd_start>},
    Fact{"host", "odd_length", kErrno, set<&Behaviour::odd_length>},
    Fact{"host", "pages_kept", kFlag, set<&Behaviour::pages_kept>},
    Fact{"copies", "submission", kErrno, set_submission},
    Fact{"window", "most_in_flight", "a number of submissions, 1 to 64", set_most_in_flight},
    Fact{"window", "refusal", kErrno, set<&Behaviour::window_full>},
    Fact{"nic", "export_offset_honoured", kFlag, set_quirk<&Quirks::mainline, false>},
    Fact{"nic", "stale_without_flush", kCount, set_stale_without_flush},
    Fact{"nic", "stale_with_flush", kCount, set_stale_with_flush},
    Fact{"nic", "flush", kErrno, set<&Behaviour::flush>},
    Fact{"soak", "flag_order_held", kFlag, set_quirk<&Quirks::early_flag, false>},
};

/// Of the form queue_N.
Wrong apply_queue(std::string_view name, const Json &value, Profile &profile) {
    const auto number = soft::cut_prefix(name, "queue_") ? soft::parse_number<uint32_t>(name) : std::nullopt;
    if (!number || *number >= kQueues || queue(*number).engine == Engine::none)
        return "the model has no such queue";
    const bool moves_nothing = text_of(value) == "wrong bytes";
    const auto error = errno_of(value);
    if (!moves_nothing && !error)
        return "expected success, wrong bytes, or the name of an errno";
    if (error != 0)
        profile.behaviour.bad_queues.push_back({*number, error.value_or(0)});
    return {};
}

Wrong apply_fact(std::string_view step, std::string_view name, const Json &value, Profile &profile) {
    if (step == "copies" && name.starts_with("queue_"))
        return apply_queue(name, value, profile);
    for (const Fact &fact : kFacts)
        if (fact.step == step && fact.name == name)
            return fact.apply(value, profile) ? Wrong() : gaudi::os::format("expected {}", fact.expected);
    return "the model knows no such fact";
}

Wrong apply_behaviour(const Json &report, Profile &profile) {
    const Json *steps = find(report, "behaviour");
    if (!steps || !steps->is_object())
        return "behaviour: expected an object";
    for (const auto &[step, facts] : steps->items()) {
        if (!facts.is_object())
            return gaudi::os::format("behaviour.{}: expected an object", step);
        for (const auto &[name, value] : facts.items())
            if (const Wrong wrong = apply_fact(step, name, value, profile))
                return gaudi::os::format("behaviour.{}.{}: {}", step, name, *wrong);
    }
    if (profile.behaviour.most_in_flight != 0 && profile.behaviour.window_full == 0)
        return "behaviour.window.refusal: expected the name of an errno beside most_in_flight";
    return {};
}

Wrong choose_model(const Json &card, Profile &profile) {
    const Json *value = find(card, "generation");
    const std::string_view name = value ? text_of(*value) : "";
    const Model *model = name == "gaudi2" ? &gaudi2() : name == "gaudi3" ? &gaudi3() : nullptr;
    if (!model)
        return "card.generation: expected gaudi2 or gaudi3";
    profile.model = *model;
    return {};
}

/// What the card says of itself. Its page may differ from that which memory is allocated in.
Wrong apply_card(const Json &card, Profile &profile) {
    Model &model = profile.model;
    uint64_t memory = 0, base = 0, edma_mask = 0;
    const struct {
        const char *name;
        uint64_t &to;
    } numbers[] = {{"memory_bytes", memory},
                   {"memory_base", base},
                   {"page_bytes", profile.behaviour.reported_page},
                   {"edma_mask", edma_mask}};
    for (const auto &[name, to] : numbers) {
        const Json *value = find(card, name);
        if (!value || !read(*value, to))
            return gaudi::os::format("card.{}: expected a number", name);
    }
    const uint64_t length = model.dram.end - model.dram.begin;
    if (base == 0 || base % kHostPage != 0 || base > std::numeric_limits<uint64_t>::max() - length)
        return "card.memory_base: expected the address of a page with all of the card's range behind it";
    if ((edma_mask & ~uint64_t{kEdmaMask}) != 0)
        return gaudi::os::format("card.edma_mask: expected {} bits at most", kEdmaUnits);
    const auto move = [&](uint64_t address) { return address - model.dram.begin + base; };
    model.dram_fw = {move(model.dram_fw.begin), move(model.dram_fw.end)};
    model.dram = {base, base + length};
    model.dram_page = profile.behaviour.reported_page;
    model.dram_bytes = memory + model.dram_reserved;
    model.edma_mask = static_cast<uint32_t>(edma_mask);
    return {};
}

Wrong check_sizes(const Profile &profile) {
    const Model &model = profile.model;
    for (const uint64_t page : {model.dram_page, profile.behaviour.reported_page})
        if (page == 0 || page % kHostPage != 0 || page > model.dram_user())
            return gaudi::os::format("page_bytes: {} is no page of {} bytes of memory", page, model.dram_user());
    if (model.pages() > kMaxPages)
        return gaudi::os::format("card.memory_bytes: the model has {} pages at most, not {}", kMaxPages, model.pages());
    if (profile.behaviour.first_offset >= model.dram.end - model.dram.begin - model.dram_user())
        return "behaviour.memory.first_mapping_offset_bytes: it is outside the card's range";
    return {};
}

Wrong apply_report(const Json &report, Profile &profile) {
    if (report.is_discarded())
        return "is not JSON";
    const Json *schema = find(report, "schema");
    if (!schema || *schema != 1)
        return "is no report of ucx_gaudi verify with schema 1";
    const Json *card = find(report, "card");
    if (!card || !card->is_object())
        return "card: expected an object";
    Wrong wrong = choose_model(*card, profile);
    if (!wrong)
        wrong = apply_card(*card, profile);
    if (!wrong)
        wrong = apply_behaviour(report, profile);
    return wrong ? wrong : check_sizes(profile);
}

/// The text of a file; an error is an errno.
tl::expected<std::string, int> read_file(const std::string &file) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> open(std::fopen(file.c_str(), "re"), std::fclose);
    if (!open)
        return tl::unexpected(errno);
    std::string text;
    std::array<char, 65536> buffer;
    while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), open.get()))
        text.append(buffer.data(), got);
    if (std::ferror(open.get()) != 0)
        return tl::unexpected(errno);
    return text;
}

} // namespace

tl::expected<Profile, std::string> read_profile(const std::string &file) {
    const auto text = read_file(file);
    if (!text)
        return Unexpected(gaudi::os::format("cannot read it: {}", std::strerror(text.error())));
    Profile profile{};
    if (const Wrong wrong = apply_report(Json::parse(*text, nullptr, false), profile))
        return Unexpected(*wrong);
    return profile;
}

} // namespace softgaudi
