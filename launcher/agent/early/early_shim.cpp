// SPDX-License-Identifier: Apache-2.0
//
// The shim (launcher/agent/shim) before the C library has started: at the entry of hvd-agent, on
// the stack that the kernel made. A static glibc asks for the properties of the CPU as it starts,
// and each such question is a trap on a virtual machine: 0.4 ms of a CPU, for each rank, which is
// more than all that the shim does.
//
// So nothing of the C library may be called here, not even memcpy, and no object with a
// constructor be used; a test checks that nothing is missing here. Whatever is not as usual
// before the agent has taken the claim is left to the ordinary start, which does the same again and
// says what was wrong.
#include "collectives/launch_contract/mpi_job.hpp"
#include "launcher/agent/early/death_signal.hpp"
#include "launcher/agent/early/raw_calls.hpp"
#include "launcher/agent/early/words.hpp"
#include "launcher/agent/task_names.hpp"
#include "launcher/wire/build_id.hpp"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace hvd::launch::early {
namespace {

using namespace std::string_view_literals;  // those are no call of strlen

constexpr int kFailed = 125;
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

/// The agent is on this host and answers at once, however busy the host is.
constexpr long kPatienceSeconds = 30;
constexpr std::size_t kMaxFrame = std::size_t{4} << 20;
constexpr std::size_t kMaxPath = 4096;
constexpr int kFirstCommandWord = 3;  // hvd-agent exec -- COMMAND

/// What the kernel has put on the stack.
struct Given {
    long count = 0;
    char** words = nullptr;
    char** variables = nullptr;
    std::size_t variables_count = 0;
};

struct Task {
    int rank = 0;
    int size = 0;  // 0: unknown
    bool starts_in_turn = false;
};

/// The agent's order, and what is made of it.
struct Order {
    int streams[2] = {-1, -1};  // standard output and standard error, or none
    bool is_cut = false;        // descriptors were lost on their way
    char* frame = nullptr;
    std::size_t frame_size = 0;
    char** variables = nullptr;
    Reader cpus{nullptr, 0};
};

std::optional<Task> find_task(char* const* variables) {
    for (const auto& names : agent::kTaskNames) {
        const char* const rank = value_of(variables, names.rank);
        if (rank == nullptr) {
            continue;
        }
        const auto number = number_of(rank, length(rank));
        Task task{.rank = number.value_or(0), .starts_in_turn = names.starts_in_turn};
        if (number && names.size.empty()) {
            return task;
        }
        const char* const size = names.size.empty() ? nullptr : value_of(variables, names.size);
        const auto of = size == nullptr ? std::nullopt : number_of(size, length(size));
        task.size = of.value_or(0);
        return number && task.size > 0 ? std::optional(task) : std::nullopt;
    }
    return std::nullopt;
}

bool is_of_our_user(int socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return call(SYS_getsockopt, socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           static_cast<long>(peer.uid) == call(SYS_geteuid);
}

/// A socket, or a negative number.
int connect_to_agent(const Place& place) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    Line<sizeof address.sun_path - 1> name;
    name.add("horovod-"sv).add(place.job_id, place.job_id_size).add("-"sv).add_decimal(place.host);
    name.add("-shim"sv);
    for (std::size_t index = 0; index < name.size(); ++index) {
        address.sun_path[index + 1] = name.data()[index];
    }
    const auto size = offsetof(sockaddr_un, sun_path) + 1 + name.size();
    const int socket = static_cast<int>(call(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket < 0 || !name.is_whole()) {
        return -1;
    }
    const timeval limit{.tv_sec = kPatienceSeconds, .tv_usec = 0};
    (void)call(SYS_setsockopt, socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    (void)call(SYS_setsockopt, socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (call(SYS_connect, socket, &address, size) != 0 || !is_of_our_user(socket)) {
        (void)call(SYS_close, socket);
        return -1;
    }
    return socket;
}

bool send(int socket, const char* bytes, std::size_t size) {
    return call(SYS_sendto, socket, bytes, size, MSG_NOSIGNAL) == static_cast<long>(size);
}

bool claim(int socket, const Place& place, const Task& task, long parent, bool needs_watch) {
    const auto build = wire::build_id();
    Line<256> body;
    body.add_text(build.data(), build.size()).add_text(place.job_id, place.job_id_size);
    body.add_u32(static_cast<std::uint32_t>(task.rank));
    body.add_u32(static_cast<std::uint32_t>(place.size));
    body.add_u32(static_cast<std::uint32_t>(call(SYS_getpid)));
    body.add_u32(static_cast<std::uint32_t>(parent)).add_u32(needs_watch ? 1 : 0);
    body.add_u32(task.starts_in_turn ? 1 : 0);
    Line<260> frame;
    frame.add_text(body.data(), body.size());
    return body.is_whole() && send(socket, frame.data(), frame.size());
}

/// Waits for `size` bytes; the streams come with the first of them.
bool receive(int socket, char* bytes, std::size_t size, Order& order) {
    union {
        cmsghdr header;
        char bytes[CMSG_SPACE(sizeof order.streams)];
    } control;
    while (size > 0) {
        iovec part{bytes, size};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        const long got = call(SYS_recvmsg, socket, &message, MSG_CMSG_CLOEXEC);
        if (got == -EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        const auto* const header = CMSG_FIRSTHDR(&message);
        if (header != nullptr && header->cmsg_type == SCM_RIGHTS &&
            header->cmsg_len == CMSG_LEN(sizeof order.streams)) {
            const auto* const fds = reinterpret_cast<const int*>(CMSG_DATA(header));
            order.streams[0] = fds[0];
            order.streams[1] = fds[1];
        }
        order.is_cut = order.is_cut || (static_cast<unsigned>(message.msg_flags) & MSG_CTRUNC) != 0;
        bytes += got;
        size -= static_cast<std::size_t>(got);
    }
    return true;
}

/// The frame that encode(ShimOrder) made.
bool receive_order(int socket, Order& order) {
    char size[sizeof(std::uint32_t)];
    if (!receive(socket, size, sizeof size, order)) {
        return false;
    }
    order.frame_size = Reader(size, sizeof size).u32();
    if (order.frame_size == 0 || order.frame_size > kMaxFrame) {
        return false;
    }
    order.frame = allocate(order.frame_size);
    return order.frame != nullptr && receive(socket, order.frame, order.frame_size, order);
}

/// Makes the variables of the rank: the agent's, then those that we have and it does not name; in a
/// clean environment, MPI's own of them.
/// False where the frame is none of ours or a refusal.
bool read_order(Order& order, const Given& given) {
    Reader reader(order.frame, order.frame_size);
    std::size_t size = 0;
    (void)reader.text(size);
    const std::size_t count = reader.u32();
    if (size != 0 || count > order.frame_size) {
        return false;
    }
    order.variables =
        reinterpret_cast<char**>(allocate((count + given.variables_count + 1) * sizeof(char*)));
    if (order.variables == nullptr) {
        return false;
    }
    char** next = order.variables;
    for (std::size_t index = 0; index < count; ++index) {
        char* const variable = reader.text(size);
        if (variable == nullptr || size == 0 || variable[size - 1] != '\0') {
            return false;
        }
        *next++ = variable;
    }
    const bool is_env_clean = reader.u32() != 0;
    *next = nullptr;  // not yet needed by anybody else: memory of the kernel is zero
    for (char** own = given.variables; *own != nullptr; ++own) {
        const auto name_size = length_of_name(*own);
        bool is_new = !is_env_clean || starts_with_any(*own, agent::kMpiVariables);
        for (std::size_t index = 0; index < count && is_new; ++index) {
            const char* const other = order.variables[index];
            is_new = other[0] != (*own)[0] ||
                     !(starts_with(other, {*own, name_size}) && other[name_size] == '=');
        }
        if (is_new) {
            *next++ = *own;
        }
    }
    order.cpus = reader;
    return true;
}

/// Tells the agent, which has our claim, what is wrong, and leaves.
[[noreturn]] void fail(int socket,
                       std::string_view step,
                       long error,
                       const char* command = nullptr) {
    const long error_number = -error;
    Line<1024> text;
    text.add(step);
    if (command != nullptr) {
        text.add(command, length(command));
    }
    Line<1040> frame;
    frame.add_u32(static_cast<std::uint32_t>(text.size() + 2 * sizeof(std::uint32_t)));
    frame.add_text(text.data(), text.size()).add_u32(static_cast<std::uint32_t>(error_number));
    (void)send(socket, frame.data(), frame.size());
    const bool is_missing = error_number == ENOENT || error_number == ENOTDIR;
    leave(command == nullptr ? kFailed : is_missing ? kNotFound : kCannotExecute);
}

/// Not /dev/null.
bool has_input() {
    struct stat input {};
    return call(SYS_fstat, STDIN_FILENO, &input) == 0 && S_ISFIFO(input.st_mode);
}

/// Puts the agent's pipes in the place of mpirun's. Open MPI closes the input of a rank that has
/// closed its outputs, so one stays open where there is input.
long take_streams(const Order& order) {
    long error = order.is_cut ? -EMFILE : 0;
    if (error == 0 && order.streams[0] >= 0 && has_input()) {
        error = call(SYS_fcntl, STDERR_FILENO, F_DUPFD, STDERR_FILENO + 1);
    }
    for (int index = 0; index < 2 && error >= 0 && order.streams[index] >= 0; ++index) {
        error = call(SYS_dup2, order.streams[index], STDOUT_FILENO + index);
    }
    return error;
}

long pin(Reader& cpus) {
    constexpr std::size_t kBits = 64;
    constexpr std::size_t kMaxCpus = 8192;
    std::uint64_t mask[kMaxCpus / kBits];
    std::size_t words = 0;
    for (std::size_t left = cpus.u32(); left > 0; --left) {
        const std::size_t cpu = cpus.u32();
        if (cpus.has_failed() || cpu >= kMaxCpus) {
            return -EINVAL;
        }
        while (words <= cpu / kBits) {
            mask[words++] = 0;
        }
        mask[cpu / kBits] |= std::uint64_t{1} << cpu % kBits;
    }
    return words == 0 ? 0 : call(SYS_sched_setaffinity, 0, words * sizeof mask[0], mask);
}

long execute_file(const char* file, const Given& given, char** variables) {
    long error = call(SYS_execve, file, given.words + kFirstCommandWord, variables);
    if (error == -ENOEXEC) {  // a script without `#!`, as execvp runs it
        const char shell[] = "sh";
        const char* script[] = {shell, file};
        char** const words = given.words + kFirstCommandWord - 1;
        words[0] = reinterpret_cast<char*>(as_word(script[0]));
        words[1] = reinterpret_cast<char*>(as_word(script[1]));
        error = call(SYS_execve, "/bin/sh", words, variables);
    }
    return error;
}

/// As execvp. Returns the error.
long execute(const Given& given, char** variables) {
    const char* const name = given.words[kFirstCommandWord];
    const auto name_size = length(name);
    for (std::size_t index = 0; index < name_size; ++index) {
        if (name[index] == '/') {
            return execute_file(name, given, variables);
        }
    }
    const char* folders = value_of(variables, "PATH");
    folders = folders == nullptr ? "/bin:/usr/bin" : folders;
    long result = -ENOENT;
    while (name_size > 0) {
        std::size_t size = 0;
        while (folders[size] != '\0' && folders[size] != ':') {
            ++size;
        }
        Line<kMaxPath> file;
        file.add(size == 0 ? "." : folders, size == 0 ? 1 : size).add("/"sv).add(name, name_size);
        const long error =
            file.is_whole() ? execute_file(file.text(), given, variables) : -ENAMETOOLONG;
        const bool is_elsewhere = error == -ENOENT || error == -ENOTDIR || error == -ESTALE ||
                                  error == -ENODEV || error == -ENAMETOOLONG || error == -ELOOP;
        if (!is_elsewhere && error != -EACCES) {
            return error;
        }
        result = error == -EACCES ? error : result;
        folders += size;
        if (*folders++ == '\0') {
            break;
        }
    }
    return result;
}

/// Returns where the ordinary start has to take over.
void run_shim(const Given& given) {
    const auto task = find_task(given.variables);
    const char* const job = value_of(given.variables, coll::kEnvMpiJob);
    const auto place = task && job != nullptr ? find_place(job, task->rank) : std::nullopt;
    if (!place || (task->size != 0 && task->size != place->size)) {
        return;
    }
    const int socket = connect_to_agent(*place);
    if (socket < 0) {
        return;
    }
    const long parent = call(SYS_getppid);
    const bool needs_watch = !is_signalled_in_time(parent);
    Order order;
    if (!claim(socket, *place, *task, parent, needs_watch) || !receive_order(socket, order) ||
        !read_order(order, given)) {
        (void)call(SYS_close, socket);
        return;
    }
    if (const long error = take_streams(order); error < 0) {
        fail(socket, "dup2"sv, error);
    }
    if (const long error = pin(order.cpus); error < 0) {
        fail(socket, "sched_setaffinity"sv, error);
    }
    const bool is_child = call(SYS_getppid) == parent;
    const long tied = !needs_watch ? arm_death_signal(parent) : is_child ? 0 : -ECHILD;
    if (tied < 0) {
        fail(socket, "prctl PR_SET_PDEATHSIG"sv, tied);
    }
    const long error = execute(given, order.variables);
    fail(socket, "execve "sv, error, given.words[kFirstCommandWord]);
}

}  // namespace
}  // namespace hvd::launch::early

/// Called by the entry below with the stack pointer that the kernel gave.
extern "C" void hvd_agent_before_libc(long* stack) {
    using namespace hvd::launch::early;  // NOLINT(google-build-using-namespace): its entry
    using namespace std::string_view_literals;
    Given given{.count = stack[0], .words = reinterpret_cast<char**>(stack + 1)};
    given.variables = given.words + given.count + 1;
    while (given.variables[given.variables_count] != nullptr) {
        ++given.variables_count;
    }
    if (given.count > kFirstCommandWord && equals(given.words[1], "exec"sv) &&
        equals(given.words[2], "--"sv)) {
        run_shim(given);
    }
}

// The ordinary start finds everything as the kernel left it.
asm(R"(
    .text
    .globl hvd_agent_entry
    .type hvd_agent_entry, @function
hvd_agent_entry:
    mov %rsp, %rbx
    mov %rdx, %r12
    mov %rsp, %rdi
    xor %ebp, %ebp
    call hvd_agent_before_libc
    mov %rbx, %rsp
    mov %r12, %rdx
    jmp _start
    .size hvd_agent_entry, . - hvd_agent_entry
)");
