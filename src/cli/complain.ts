/** Says on stderr why a command cannot start. Returns the status to exit with. */
export function complain(command: string, problems: readonly string[]): number {
  const lines = problems.map((problem) => `  ${problem}\n`)
  process.stderr.write(`${command} cannot start:\n${lines.join('')}`)
  return 1
}
