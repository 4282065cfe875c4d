// exp, log, pow, sin and cos in double, from + - * / alone.
//
// libm's last bits differ between systems; these do not, so angles and frequencies that enter the model are the same
// everywhere. Relative error below 1e-14 in the ranges that models use. For tables made at load; kernels have their
// own. Thread-safety: pure functions.
#pragma once

namespace colibri {

double exact_exp(double x);               ///< |x| < 700
double exact_log(double x);               ///< x > 0
double exact_pow(double base, double e);  ///< base > 0
double exact_sin(double x);               ///< |x| < 1.6e6
double exact_cos(double x);               ///< |x| < 1.6e6

}  // namespace colibri
