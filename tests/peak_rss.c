/* peak_rss: prints a peak resident set size in bytes.
 *
 *   peak_rss PROGRAM ARGS...   of a program that it runs, after what the program prints
 *   peak_rss                   of itself: a C program that links libcolibri and opens nothing
 *
 * It exists because a process started from a large one (a Python test) inherits that one's peak.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "colibri/colibri.h"

static int run(char** argv) {
  struct rusage usage;
  int status = 0;
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    execv(argv[0], argv);
    _exit(127);
  }
  if (wait4(child, &status, 0, &usage) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return 1;
  printf("%ld\n", usage.ru_maxrss * 1024L);
  return 0;
}

static long own_peak(void) {
  long kib = -1;
  char line[256];
  FILE* file = fopen("/proc/self/status", "r");
  if (file == NULL) return -1;
  while (fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "VmHWM: %ld", &kib) == 1) break;
  }
  fclose(file);
  return kib * 1024L;
}

int main(int argc, char** argv) {
  if (argc > 1) return run(argv + 1);
  if (colibri_setting_count() == 0 || colibri_setting_check("memory", "8G", NULL) != COLIBRI_OK) return 1;
  printf("%ld\n", own_peak());
  return 0;
}
