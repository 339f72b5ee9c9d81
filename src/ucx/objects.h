// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gaudi::ucx {

/// The names by which the loader knows the loaded objects whose file is LIBRARY.so..., LIBRARY-HASH.so... or the like,
/// but not LIBRARY_MODULE.so...
std::vector<std::string> list_loaded_objects(std::string_view library);

/// A reference to an object that is loaded already, else nullptr; nothing is loaded. The caller ends it with dlclose.
void *reference_object(const std::string &name) noexcept;

/// The same for the object that holds an address.
void *reference_object_at(const void *address) noexcept;

/// The address at which the object itself uses its variable. dlsym may return another one: a program that refers to a
/// variable of a library gets a copy, the library then uses that copy, and its own keeps the first values.
void *find_variable(void *object, const char *name) noexcept;

} // namespace gaudi::ucx
