import { printableText } from '../text/printable.ts'
import { closest } from '../text/suggest.ts'

/**
 * Returns what parseArgs found wrong as a sentence that leads to the help of the command, with a suggestion for a misspelled option. Returns
 * undefined for any other error. The help must name all options of the command.
 */
export function argumentProblem(error: unknown, command: string, help: string): string | undefined {
  const { code = '', message } = error as NodeJS.ErrnoException
  if (!code.startsWith('ERR_PARSE_ARGS_')) return undefined
  // Any further lines are advice, and so is the sentence about arguments that begin with a dash.
  const problem = message
    .replace(/\.?\n.*/s, '')
    .replace(/'\. To specify a positional argument .*/s, "'")
    // Mostly a shell variable that is empty.
    .replace(
      /^Option '(?:-\w, )?(--[\w-]+)(?: <value>)?' argument is ambiguous$/,
      '$1: expected a value, but the next argument begins with a dash',
    )
  return `${printableText(problem)}${optionAdvice(problem, help)}; see edge ${command} --help`
}

/** Prints what is wrong with the arguments of a command, and returns the exit status. Throws any other error. */
export function printArgumentProblem(error: unknown, command: string, help: string): number {
  const problem = argumentProblem(error, command, help)
  if (problem === undefined) throw error
  process.stderr.write(`edge ${command}: ${problem}\n`)
  return 1
}

/** Returns the sentence for a command that does not exist. The help must name all commands. */
export function unknownCommand(name: string, help: string): string {
  const known = Array.from(help.matchAll(/^ {2}edge ([a-z][a-z-]*)/gm), ([, command]) => command!)
  const meant = closest(name, known)
  return `unknown command ${JSON.stringify(name)}${meant === undefined ? '' : ` (did you mean ${JSON.stringify(meant)}?)`}; see edge --help`
}

function optionAdvice(problem: string, help: string): string {
  const [, option] = /^Unknown option '--(.*)'$/s.exec(problem) ?? []
  if (option === undefined) return ''
  // Settings are often typed as their variables are: --config_file, --EDGE_CONFIG_FILE.
  const spelled = option
    .toLowerCase()
    .replaceAll('_', '-')
    .replace(/^edge-/, '')
  const options = new Set(Array.from(help.matchAll(/--([a-z][a-z-]*)/g), ([, name]) => name!)).add('help')
  const variable = `EDGE_${spelled.toUpperCase().replaceAll('-', '_')}`
  // Secrets have no option, and some commands read settings of the service only from the environment.
  if (!options.has(spelled) && new Set(help.match(/\bEDGE_[A-Z_]+/g)).has(variable)) return ` (set ${variable} instead)`
  const meant = closest(spelled, options)
  return meant === undefined ? '' : ` (did you mean --${meant}?)`
}
