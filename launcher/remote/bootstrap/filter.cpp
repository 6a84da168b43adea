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

// Longer than the magic word: where one of the two may still begin, there is room for both.
constexpr std::string_view kLineMark = "\nHVDBOOT1 ";
static_assert(kLineMark.substr(1) == kBootstrapMark && kLineMark.size() > wire::kMagic.size());

BootstrapFilter::Event too_much() {
    return {.kind = BootstrapFilter::Kind::failed,
            .text =
                "it printed more than 64 KiB where the agent was to speak; let the login "
                "shell's start-up files print nothing when it is not interactive"};
}

}  // namespace

void BootstrapFilter::feed(std::span<const std::byte> bytes) {
    bytes_.erase(0, std::exchange(read_, 0));
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string_view BootstrapFilter::unread() const {
    return std::string_view(bytes_).substr(read_);
}

void BootstrapFilter::skip(std::size_t bytes) {
    banner_.append(bytes_, read_, bytes);
    read_ += bytes;
}

BootstrapFilter::Event BootstrapFilter::next() {
    while (banner_.size() <= kMaxBanner) {
        const auto room = kMaxBanner - banner_.size();
        const auto text = unread().substr(0, room + kLineMark.size());  // the rest is too late
        const auto line = text.find(kLineMark);
        const auto magic = text.substr(0, line).find(wire::kMagic);
        if (std::min(line, magic) > room) {
            return unread().size() > room ? too_much() : Event{};
        }
        if (magic < line) {
            skip(magic);
            Event event{.kind = Kind::started, .text = std::string(unread())};
            read_ = bytes_.size();  // it is no banner
            return event;
        }
        const auto begin = line + 1;
        const auto end = unread().find('\n', begin);
        if (end == std::string_view::npos) {
            return unread().size() > kMaxBanner ? too_much() : Event{};
        }
        skip(line);
        const auto said = unread().substr(1, end + 1 - begin);
        read_ += 1 + said.size();
        if (said == kBootstrapShell) {
            return {.kind = Kind::in_shell};
        }
        if (said == kBootstrapSend) {
            return {.kind = Kind::send_agent};
        }
        if (said.starts_with(kBootstrapFail)) {
            return {.kind = Kind::failed,
                    .text = std::string(trim(said.substr(kBootstrapFail.size())))};
        }
        banner_ += said;  // whatever this is, it is not ours
    }
    return too_much();
}

std::string BootstrapFilter::banner() const {
    return one_line(banner_ + std::string(unread()), kShownBanner);
}

std::string rounded_seconds(std::chrono::milliseconds span) {
    return std::to_string(std::chrono::ceil<std::chrono::seconds>(span).count()) + " s";
}

}  // namespace hvd::launch
