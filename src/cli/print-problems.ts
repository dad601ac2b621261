/** Prints why a command cannot start. Returns the exit status. */
export function printStartProblems(command: string, problems: readonly string[]): number {
  const lines = problems.map((problem) => `  ${problem}\n`)
  process.stderr.write(`${command} cannot start:\n${lines.join('')}`)
  return 1
}
