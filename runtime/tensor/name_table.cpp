// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/name_table.hpp"

namespace hvd::rt {

/// Training submits the same names in the same order in each step, so that the name after the last
/// one is most likely the one that came there before.
Name& NameTable::intern(int process_set, std::string&& text) {
    Name* name = last_ == nullptr ? nullptr : last_->after;
    if (name == nullptr || name->process_set != process_set || name->text != text) {
        name = &look_up(process_set, std::move(text));
        if (last_ != nullptr) {
            last_->after = name;
        }
    }
    last_ = name;
    ++name->users;
    return *name;
}

Name& NameTable::look_up(int process_set, std::string&& text) {
    if (const auto found = names_.find({process_set, text}); found != names_.end()) {
        return *found->second;
    }
    if (spare_ == nullptr) {
        spare_ = &all_.emplace_back();
    }
    Name& name = *spare_;
    name.process_set = process_set;
    name.text = std::move(text);
    try {
        names_.emplace(Key{process_set, name.text}, &name);
    } catch (...) {
        name.text.clear();
        throw;
    }
    spare_ = std::exchange(name.after, nullptr);
    return name;
}

void NameTable::drop_user(Name& name) noexcept {
    if (--name.users == 0 && !name.is_cached.load(std::memory_order_relaxed)) {
        forget(name);
    }
}

void NameTable::uncache(Name& name) noexcept {
    name.is_cached.store(false, std::memory_order_relaxed);
    if (name.users == 0) {
        forget(name);
    }
}

/// No text is empty, so that nobody takes the name for the one that it has been.
void NameTable::forget(Name& name) noexcept {
    names_.erase({name.process_set, name.text});
    name.text.clear();
    name.cache_id = kNoId;
    name.after = std::exchange(spare_, &name);
    last_ = last_ == &name ? nullptr : last_;
}

}  // namespace hvd::rt
