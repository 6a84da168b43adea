// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/say.hpp"

#include "collectives/base/error.hpp"
#include "launcher/model/exit_code.hpp"
#include "launcher/output/write_all.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace hvd::launch {

void say_on_stderr(const std::string& sentence) {
    (void)write_all(STDERR_FILENO, "horovodrun: " + sentence + "\n");
}

std::size_t terminal_columns() {
    constexpr std::size_t kUsual = 80;
    winsize size{};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

int print_page(const std::string& text) {
    const int error = write_all(STDOUT_FILENO, text);
    if (error == 0) {
        return 0;
    }
    if (error == EPIPE) {
        return kExitConsoleClosed;
    }
    say_on_stderr(system_error("standard output", error).message);
    return kExitLauncherFailure;
}

void open_missing_descriptors() {
    for (const int wanted : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(wanted, F_GETFD) < 0 && errno == EBADF) {
            (void)::open("/dev/null", O_RDWR);  // takes the lowest free number: this one
        }
    }
}

}  // namespace hvd::launch
