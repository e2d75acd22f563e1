/* What src/cpu_arm.c takes from Windows' header of this name,
 * so that its lines for that system are compiled on every machine.
 * May know: the declaration.
 * Must not know: anything else. */
typedef int BOOL;
typedef unsigned long DWORD;

__declspec(dllimport) BOOL __stdcall IsProcessorFeaturePresent(DWORD feature);
