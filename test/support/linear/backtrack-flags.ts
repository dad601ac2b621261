/** V8 writes this to stdout where a regular expression needed more than so many backtracks. */
export const TOO_MANY_BACKTRACKS = 'Experimental execution'

export function backtrackFlags(most: number): string[] {
  return [
    '--enable-experimental-regexp-engine-on-excessive-backtracks',
    `--regexp-backtracks-before-fallback=${most}`,
    '--trace-experimental-regexp-engine',
  ]
}
