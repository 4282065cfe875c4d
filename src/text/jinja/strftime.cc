#include "text/jinja/strftime.h"

#include <algorithm>

namespace colibri::text::jinja {
namespace {

constexpr std::string_view kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr std::string_view kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                        "July",    "August",   "September", "October", "November", "December"};

struct CivilTime {
  int64_t year;
  int month, day, hour, minute, second;  // month and day from 1
  int week_day;                          // Sunday is 0
  int year_day;                          // from 0
};

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

bool is_leap(int64_t year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

int64_t days_before_year(int64_t year) {
  const int64_t y = year - 1;
  return 365 * y + floor_div(y, 4) - floor_div(y, 100) + floor_div(y, 400) - 719162;  // 1970-01-01 is day 0
}

int days_in_month(int64_t year, int month) {
  constexpr int kLengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return kLengths[month - 1] + (month == 2 && is_leap(year) ? 1 : 0);
}

CivilTime civil_time(int64_t seconds) {
  // Ten thousand years either way; beyond that there is nothing to show.
  seconds = std::clamp<int64_t>(seconds, -315'000'000'000, 315'000'000'000);
  const int64_t days = floor_div(seconds, 86400);
  const auto of_day = static_cast<int>(seconds - days * 86400);
  int64_t year = 1970 + floor_div(days * 400, 146097);
  while (days_before_year(year) > days) --year;
  while (days_before_year(year + 1) <= days) ++year;
  const auto year_day = static_cast<int>(days - days_before_year(year));
  CivilTime time{year, 1, year_day + 1, of_day / 3600, of_day / 60 % 60, of_day % 60, 0, year_day};
  for (; time.day > days_in_month(year, time.month); ++time.month) time.day -= days_in_month(year, time.month);
  time.week_day = static_cast<int>((days % 7 + 11) % 7);  // day 0 was a Thursday
  return time;
}

// ISO 8601: the week with the year's first Thursday is week 1.
void iso_week(const CivilTime& time, int64_t& year, int& week) {
  const int from_monday = (time.week_day + 6) % 7;
  year = time.year;
  week = (time.year_day - from_monday + 10) / 7;
  const auto has_53 = [](int64_t y) {
    const auto start = static_cast<int>((days_before_year(y) % 7 + 11) % 7);  // weekday of January 1
    return start == 4 || (start == 3 && is_leap(y));
  };
  if (week < 1) {
    --year;
    week = has_53(year) ? 53 : 52;
  } else if (week == 53 && !has_53(year)) {
    ++year;
    week = 1;
  }
}

class TimeFormatter {
 public:
  TimeFormatter(int64_t seconds, bool no_fill) : seconds_(seconds), time_(civil_time(seconds)), no_fill_(no_fill) {}

  // False: no such directive.
  bool append(char directive, std::string& out) const {
    switch (directive) {
      case 'a':
        out += kDays[time_.week_day].substr(0, 3);
        return true;
      case 'A':
        out += kDays[time_.week_day];
        return true;
      case 'b':
      case 'h':
        out += kMonths[time_.month - 1].substr(0, 3);
        return true;
      case 'B':
        out += kMonths[time_.month - 1];
        return true;
      case 'p':
        out += time_.hour < 12 ? "AM" : "PM";
        return true;
      case 'n':
        out += '\n';
        return true;
      case 't':
        out += '\t';
        return true;
      case '%':
        out += '%';
        return true;
      case 'z':
      case 'Z':
        return true;  // civil time has no zone
      default:
        return append_combined(directive, out) || append_number(directive, out);
    }
  }

 private:
  bool append_combined(char directive, std::string& out) const {
    struct Combined {
      char directive;
      std::string_view format;
    };
    constexpr Combined kCombined[] = {{'c', "%a %b %e %H:%M:%S %Y"},
                                      {'D', "%m/%d/%y"},
                                      {'F', "%Y-%m-%d"},
                                      {'r', "%I:%M:%S %p"},
                                      {'R', "%H:%M"},
                                      {'T', "%H:%M:%S"},
                                      {'x', "%m/%d/%y"},
                                      {'X', "%H:%M:%S"}};
    for (const Combined& combined : kCombined) {
      if (combined.directive != directive) continue;
      out += format_time(seconds_, combined.format);
      return true;
    }
    return false;
  }

  bool append_number(char directive, std::string& out) const {
    const int hour12 = (time_.hour + 11) % 12 + 1;
    int64_t iso_year = 0;
    int week = 0;
    iso_week(time_, iso_year, week);
    switch (directive) {
      case 'C':
        return number(out, floor_div(time_.year, 100), 2);
      case 'd':
        return number(out, time_.day, 2);
      case 'e':
        return number(out, time_.day, 2, ' ');
      case 'f':
        return number(out, 0, 6);
      case 'g':
        return number(out, iso_year % 100, 2);
      case 'G':
        return number(out, iso_year, 0);
      case 'H':
        return number(out, time_.hour, 2);
      case 'I':
        return number(out, hour12, 2);
      case 'j':
        return number(out, time_.year_day + 1, 3);
      case 'k':
        return number(out, time_.hour, 2, ' ');
      case 'l':
        return number(out, hour12, 2, ' ');
      case 'm':
        return number(out, time_.month, 2);
      case 'M':
        return number(out, time_.minute, 2);
      case 's':
        return number(out, seconds_, 0);
      case 'S':
        return number(out, time_.second, 2);
      case 'u':
        return number(out, (time_.week_day + 6) % 7 + 1, 0);
      case 'U':
        return number(out, (time_.year_day + 7 - time_.week_day) / 7, 2);
      case 'V':
        return number(out, week, 2);
      case 'w':
        return number(out, time_.week_day, 0);
      case 'W':
        return number(out, (time_.year_day + 7 - (time_.week_day + 6) % 7) / 7, 2);
      case 'y':
        return number(out, time_.year % 100, 2);
      case 'Y':
        return number(out, time_.year, 0);
      default:
        return false;
    }
  }

  bool number(std::string& out, int64_t value, size_t width, char fill = '0') const {
    const std::string digits = std::to_string(value);
    if (!no_fill_ && digits.size() < width) out.append(width - digits.size(), fill);
    out += digits;
    return true;
  }

  int64_t seconds_;
  CivilTime time_;
  bool no_fill_;
};

}  // namespace

std::string format_time(int64_t seconds, std::string_view format) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    const bool no_fill = format[i] == '%' && i + 2 < format.size() && format[i + 1] == '-';
    const size_t directive = i + (no_fill ? 2 : 1);
    const bool is_directive = format[i] == '%' && directive < format.size();
    if (is_directive && TimeFormatter(seconds, no_fill).append(format[directive], out)) {
      i = directive;
    } else {
      out += format[i];
    }
  }
  return out;
}

}  // namespace colibri::text::jinja
