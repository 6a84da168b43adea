// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/bootstrap/filter.hpp"

#include "collectives/base/text.hpp"
#include "launcher/remote/bootstrap/line.hpp"
#include "launcher/wire/frames.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace hvd::launch {
namespace {

constexpr std::size_t kShownBanner = 600;  // characters: the last ones

BootstrapFilter::Event too_much() {
    return {.kind = BootstrapFilter::Kind::failed,
            .text =
                "it printed more than 64 KiB where the agent was to speak; let the login "
                "shell's start-up files print nothing when it is not interactive"};
}

}  // namespace

void BootstrapFilter::feed(std::span<const std::byte> bytes) {
    unread_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void BootstrapFilter::skip(std::size_t bytes) {
    banner_.append(unread_, 0, bytes);
    unread_.erase(0, bytes);
}

BootstrapFilter::Event BootstrapFilter::next() {
    while (banner_.size() <= kMaxBanner) {
        const auto line = unread_.find("\n" + std::string(kBootstrapMark));
        const auto magic = unread_.find(wire::kMagic);
        if (std::min(line, magic) > kMaxBanner - banner_.size()) {
            return banner_.size() + unread_.size() > kMaxBanner ? too_much() : Event{};
        }
        if (magic < line) {
            skip(magic);
            return {.kind = Kind::started, .text = std::exchange(unread_, {})};
        }
        const auto begin = line + 1;
        const auto end = unread_.find('\n', begin);
        if (end == std::string::npos) {
            return unread_.size() > kMaxBanner ? too_much() : Event{};
        }
        const auto said = unread_.substr(begin, end + 1 - begin);
        skip(line);
        unread_.erase(0, 1 + said.size());
        if (said == kBootstrapSend) {
            return {.kind = Kind::send_agent};
        }
        if (said.starts_with(kBootstrapFail)) {
            return {
                .kind = Kind::failed,
                .text = std::string(trim(std::string_view(said).substr(kBootstrapFail.size())))};
        }
        banner_ += said;  // whatever this is, it is not ours
    }
    return too_much();
}

std::string BootstrapFilter::banner() const {
    return one_line(banner_ + unread_, kShownBanner);
}

std::string one_line(std::string_view text, std::size_t max_characters) {
    std::vector<std::string> lines;
    for (const auto line : split(text, '\n')) {
        std::string shown(trim(line));
        std::ranges::replace_if(
            shown, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, '?');
        if (!shown.empty()) {
            lines.push_back(std::move(shown));
        }
    }
    auto joined = join(lines, "; ");
    if (joined.size() > max_characters) {
        joined.replace(0, joined.size() - max_characters, "...");
    }
    return joined;
}

}  // namespace hvd::launch
