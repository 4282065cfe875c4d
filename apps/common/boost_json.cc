// The bodies of Boost.JSON, here only: a library of its own, because a program that is linked with the parts of
// libcolibri has them already.
#include <boost/json/src.hpp>
