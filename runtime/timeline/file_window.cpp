// SPDX-License-Identifier: Apache-2.0
#include "runtime/timeline/file_window.hpp"

#include <bit>
#include <cerrno>
#include <cstdint>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace hvd::rt {
namespace {

// Each unmapping interrupts the other threads: one in so many bytes.
constexpr std::size_t kWindow = std::size_t{1} << 20;

/// Two bytes at any address: the compiler makes one store of them.
struct __attribute__((packed, may_alias)) Pair {
    std::uint16_t value;
};

}  // namespace

FileWindow::FileWindow(FileWindow&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), size_(other.size_), start_(other.start_) {}

FileWindow& FileWindow::operator=(FileWindow&& other) noexcept {
    if (this != &other) {
        unmap();
        base_ = std::exchange(other.base_, nullptr);
        size_ = other.size_;
        start_ = other.start_;
    }
    return *this;
}

FileWindow::~FileWindow() {
    unmap();
}

void FileWindow::unmap() noexcept {
    if (base_ != nullptr) {
        (void)::munmap(std::exchange(base_, nullptr), size_);
    }
}

Status FileWindow::move_to(int fd, off_t at) {
    unmap();
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    start_ = at - at % static_cast<off_t>(page);
    size_ = kWindow + page;  // what lies behind the file's end is not touched
    void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, start_);
    if (memory == MAP_FAILED) {
        return system_error("mapping", errno);
    }
    base_ = static_cast<char*>(memory);
    return ok();
}

Status FileWindow::store(int fd, off_t at, std::array<char, 2> bytes) {
    const auto is_inside = [&] {
        return base_ != nullptr && at >= start_ && at + 2 <= start_ + static_cast<off_t>(size_);
    };
    if (!is_inside()) {
        HVD_TRY_STATUS(move_to(fd, at));
    }
    char* const where = base_ + (at - start_);
    // A page fault between the two pages could end the process there on some processors: each page
    // is made writable first, by storing its present value.
    for (const std::ptrdiff_t index : {0, 1}) {
        volatile char* const byte = where + index;
        *byte = *byte;
    }
    reinterpret_cast<volatile Pair*>(where)->value = std::bit_cast<std::uint16_t>(bytes);
    return ok();
}

}  // namespace hvd::rt
