const READING: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  ENOTDIR: 'there is no such file',
  EISDIR: 'it is a directory',
  EACCES: 'this user is not allowed to read it',
}

const WRITING: Readonly<Record<string, string>> = {
  ENOENT: 'its directory does not exist',
  ENOTDIR: 'its directory does not exist',
  EISDIR: 'it is a directory',
  EACCES: 'this user is not allowed to write there',
  EROFS: 'its disk is read-only',
  ENOSPC: 'its disk is full',
}

/** Says why a file could not be read, as a sentence about the file. */
export function readingProblem(error: unknown): string {
  return inWords(error as NodeJS.ErrnoException, READING)
}

/** Says why a file could not be written, as a sentence about the file. */
export function writingProblem(error: unknown): string {
  return inWords(error as NodeJS.ErrnoException, WRITING)
}

function inWords({ code = '', message }: NodeJS.ErrnoException, words: Readonly<Record<string, string>>): string {
  return words[code] ?? message
}

/** Prints why a command cannot start. Returns the exit status. */
export function printStartProblems(command: string, problems: readonly string[]): number {
  const lines = problems.map((problem) => `  ${problem}\n`)
  process.stderr.write(`${command} cannot start:\n${lines.join('')}`)
  return 1
}

/** Handles errors of standard output: EPIPE only means that a reader such as `head` has seen enough. */
export function ignoreClosed(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error
}
