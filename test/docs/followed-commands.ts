import { basename, join } from 'node:path'
import { expect } from 'vitest'
import { idsOf, shapeOf, shownShape } from './printed-shape.ts'
import type { ShellSession } from './shell-session.ts'

/** How long a look may take to show what happens in the background. */
const PATIENCE_MS = 60_000

/** The commands of a page in one shell, with what the page shows replaced by what it is in this run. */
export class FollowedCommands {
  readonly #shell: ShellSession
  readonly #directory: string
  readonly #shownDirectory: string
  readonly #replacements: (readonly [string, string])[]

  /** `shownDirectory` is where the page has its files. */
  constructor(shell: ShellSession, directory: string, shownDirectory: string, replacements: readonly (readonly [string, string])[]) {
    this.#shell = shell
    this.#directory = directory
    this.#shownDirectory = shownDirectory
    this.#replacements = [...replacements]
  }

  /** Runs the commands of a section in order, and compares each block with what the page shows below it. */
  async follow(section: string): Promise<void> {
    for (const { commands, output } of stepsOf(section)) {
      let printed = await this.run(commands)
      // What happens in the background takes a moment, for a reader too.
      for (const endMs = Date.now() + PATIENCE_MS; isLook(commands) && !fits(output, printed) && Date.now() < endMs; )
        printed = await this.run(commands)
      expect(`${shapeOf(printed)}\n`, commands).toMatch(shownShape(output))
      this.#replacements.push(...idsOf(output, printed))
    }
  }

  /** What the commands print on this instance. */
  async run(commands: string): Promise<string> {
    const printed = await this.#shell.run(this.#replacements.reduce((text, [shown, real]) => text.replaceAll(shown, real), commands))
    return printed.replaceAll(this.#directory, this.#shownDirectory).replaceAll('\r\n', '\n')
  }

  /** From now on, the first stands for the second in commands, whatever it stood for before. */
  replace(shown: string, real: string): void {
    this.#replacements.unshift([shown, real])
  }
}

interface Step {
  readonly commands: string
  /** Empty where the page shows none. */
  readonly output: string
}

function stepsOf(section: string): Step[] {
  const blocks = [...section.matchAll(/^```(\w*)\n(.*?)^```$/gms)]
    .filter(([, language]) => language !== 'yaml')
    .map(([, language, text]) => ({
      isShell: language === 'sh',
      text: text!,
    }))
  return blocks.flatMap(({ isShell, text }, i) => {
    if (!isShell) return []
    const next = blocks[i + 1]
    return [{ commands: text, output: next === undefined || next.isShell ? '' : next.text }]
  })
}

/** Commands that change nothing. */
function isLook(commands: string): boolean {
  return commands
    .trim()
    .split('\n')
    .every((line) => /^edge (?:status|backends(?! retry)|top|caller|counters|validate|bundle|usage)\b/.test(line))
}

function fits(output: string, printed: string): boolean {
  return shownShape(output).test(`${shapeOf(printed)}\n`)
}

/** `A=1 B=2 edge serve` as settings: ports are free ones, files and directories are in the directory, and the admin token is this one. */
export function settingsIn(command: string, directory: string, adminToken: string): Record<string, string> {
  const settings = [...command.matchAll(/(EDGE_\w+)=(\S+)/g)].map(([, name, value]): [string, string] => {
    if (name!.endsWith('_PORT')) return [name!, '0']
    if (/_(?:FILE|DIR)$/.test(name!)) return [name!, join(directory, basename(value!))]
    return [name!, name === 'EDGE_ADMIN_TOKEN' ? adminToken : value!]
  })
  return Object.fromEntries(settings)
}
