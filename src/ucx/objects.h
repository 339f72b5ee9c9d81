// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gaudi::ucx {

// The names by which the loader knows the loaded objects whose file is LIBRARY.so..., LIBRARY-HASH.so... or the like,
// but not LIBRARY_MODULE.so...
std::vector<std::string> loaded_objects(std::string_view library);

// A reference to an object that is loaded already, or nullptr. Nothing is loaded. dlclose gives it back.
void *reference(const std::string &name) noexcept;

// The same for the object that holds an address.
void *reference_at(const void *address) noexcept;

// Where the object itself finds its variable. That need not be what dlsym says: a program that names a variable of a
// library gets a copy, the library then uses the copy, and its own is left behind with the first values.
void *variable(void *object, const char *name) noexcept;

} // namespace gaudi::ucx
