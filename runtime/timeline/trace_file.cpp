// SPDX-License-Identifier: Apache-2.0
//
// The kernel ends a killed writer between two pages of a write, never within one. So a write stays
// within a block, a part of a page: it replaces the closing bracket by elements and the next
// bracket. Only the step to the next block changes two pages. Blanks around the array are JSON too:
//
//     block                  next block
//     ...{} \n]\n                            as each write leaves it
//     ...{}         ]                        a write: the bracket is the block's last byte
//     ...{}         ]        \n              a write: the file has the next block's first byte
//     ...{}                  ]               a store of both bytes by one instruction
//
// The text of a write lies within one page too: the kernel copies it in one go.
#include "runtime/timeline/trace_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace hvd::rt {
namespace {

constexpr mode_t kMode = 0644;
constexpr std::size_t kBlock = 4096;
constexpr std::string_view kBetween = ",\n";
constexpr std::string_view kEnd = "\n]\n";

static_assert(TraceFile::kMostElement + kBetween.size() + kEnd.size() == kBlock);

}  // namespace

struct alignas(kBlock) TraceFile::Block {
    void add(std::string_view more) noexcept {
        std::ranges::copy(more, text.begin() + static_cast<std::ptrdiff_t>(size));
        size += more.size();
    }

    std::array<char, kBlock> text{};
    std::size_t size = 0;
};

TraceFile::TraceFile(UniqueFd fd) : fd_(std::move(fd)), block_(std::make_unique<Block>()) {}
TraceFile::TraceFile(TraceFile&& other) noexcept = default;
TraceFile& TraceFile::operator=(TraceFile&& other) noexcept = default;
TraceFile::~TraceFile() = default;

Result<TraceFile> TraceFile::create(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
    if (!fd) {
        return system_error("timeline '" + path + "'", errno);
    }
    TraceFile file(std::move(fd));
    file.block_->add("[");
    if (auto status = file.flush(); !status) {
        return std::move(status).error().context("timeline '" + path + "'");
    }
    // Tells now, rather than at the first full block, where a file cannot be mapped.
    if (auto status = file.window_.store(file.fd_.get(), 0, {'[', '\n'}); !status) {
        return std::move(status).error().context("timeline '" + path + "'");
    }
    return file;
}

/// For further text, with the closing bracket behind it.
std::size_t TraceFile::room() const noexcept {
    return kBlock - static_cast<std::size_t>(end_) % kBlock - block_->size - kEnd.size();
}

Status TraceFile::append(std::string_view elements) {
    while (!elements.empty()) {
        const auto line = elements.substr(0, elements.find(kBetween));
        elements.remove_prefix(std::min(elements.size(), line.size() + kBetween.size()));
        if (auto status = add(line); !status) {
            (void)flush();
            return status;
        }
    }
    return flush();
}

Status TraceFile::add(std::string_view line) {
    if (line.size() > kMostElement) {
        return Error{Errc::invalid_argument,
                     "timeline: an event of " + std::to_string(line.size()) +
                         " bytes; the longest has " + std::to_string(kMostElement)};
    }
    const bool is_first = end_ == 1 && block_->size == 0;
    const auto between = is_first ? kBetween.substr(1) : kBetween;
    if (between.size() + line.size() > room()) {
        HVD_TRY_STATUS(flush());
        HVD_TRY_STATUS(next_block());
    }
    block_->add(between);
    block_->add(line);
    return ok();
}

/// Writes the text and the closing bracket.
Status TraceFile::flush() {
    const auto size = std::exchange(block_->size, 0);
    if (size == 0) {
        return ok();
    }
    std::ranges::copy(kEnd, block_->text.begin() + static_cast<std::ptrdiff_t>(size));
    HVD_TRY_STATUS(write(size + kEnd.size(), end_));
    end_ += static_cast<off_t>(size);
    return ok();
}

Status TraceFile::next_block() {
    const auto left = kBlock - static_cast<std::size_t>(end_) % kBlock;
    const auto next = end_ + static_cast<off_t>(left);
    auto& text = block_->text;
    std::ranges::fill(std::span(text).first(left), ' ');
    text[left - 1] = ']';
    HVD_TRY_STATUS(write(left, end_));
    text[0] = '\n';
    auto status = write(1, next);
    if (status) {
        status = window_.store(fd_.get(), next - 1, {' ', ']'});
    }
    if (!status) {
        end_here(left);
        return status;
    }
    end_ = next;
    return ok();
}

/// Takes back what a step that failed has left in the next `size` bytes, which the file has.
void TraceFile::end_here(std::size_t size) noexcept {
    std::ranges::fill(std::span(block_->text).first(size), ' ');
    std::ranges::copy(kEnd, block_->text.begin());
    (void)::pwrite(fd_.get(), block_->text.data(), size, end_);
}

/// Writes what the block begins with, all of it or nothing.
Status TraceFile::write(std::size_t size, off_t at) {
    ssize_t written = -1;
    do {
        written = ::pwrite(fd_.get(), block_->text.data(), size, at);
    } while (written < 0 && errno == EINTR);
    if (written == static_cast<ssize_t>(size)) {
        return ok();
    }
    const int cause = written < 0 ? errno : ENOSPC;
    if (written > 0 && at == end_) {
        // Where a file reaches its greatest size a write is cut.
        end_here(std::max(static_cast<std::size_t>(written), kEnd.size()));
    }
    return system_error("timeline", cause);
}

}  // namespace hvd::rt
