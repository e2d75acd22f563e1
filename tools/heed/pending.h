/* Temporary files that a signal must not leave behind.
 * May know: POSIX signals.
 * Must not know: what the files are. */
#ifndef HEED_TOOL_PENDING_H
#define HEED_TOOL_PENDING_H

/* Remembers a file to remove when SIGINT, SIGTERM or SIGHUP ends the program. */
void pending_add(const char *path);

/* Forgets the last one. */
void pending_drop(void);

/* Between these two the program is not ended by those signals: for a step that must happen whole. */
void pending_hold(void);
void pending_release(void);

/* Forgets all files and gives the signals back. */
void pending_clear(void);

#endif
