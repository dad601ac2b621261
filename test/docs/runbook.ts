import { writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { ADMIN_TOKEN } from '../support/admin/admin-client.ts'
import type { Cli } from '../support/service/cli.ts'
import { scratchDirectory, serving } from '../support/service/running.ts'
import { codeBlocks, ROOT, readText } from './markdown.ts'
import { idsOf, shapeOf, shownShape } from './printed-shape.ts'
import { ShellSession } from './shell-session.ts'

const PAGE = readText('docs/runbook.md')
const [INTRODUCTION, ...SECTIONS] = PAGE.split(/^## /m) as [string, ...string[]]
const [EXPORTS, SERVE] = codeBlocks(INTRODUCTION, 'sh') as [string, string]
const [BUNDLE] = codeBlocks(PAGE, 'yaml') as [string]

/** Where the page has its files. */
const SHOWN_DIRECTORY = '/var/lib/edge'
/** How long a look may take to show what happens in the background. */
const PATIENCE_MS = 60_000

/** The sections of the page that have commands. */
export function runbookTitles(): string[] {
  return SECTIONS.filter((section) => codeBlocks(section, 'sh').length > 0).map(titleOf)
}

/** An instance as docs/runbook.md starts it, with two workers, and a shell beside it. */
export class Runbook {
  readonly #shell: ShellSession
  readonly #directory: string
  /** What the page shows, and what it is in this run. */
  readonly #replacements: (readonly [string, string])[]

  private constructor(edge: Cli, shell: ShellSession, directory: string) {
    this.#shell = shell
    this.#directory = directory
    this.#replacements = [
      ['localhost:8080', `127.0.0.1:${edge.port}`],
      ['localhost:9090', `127.0.0.1:${/admin\s+http:\/\/\S+?:(\d+)/.exec(edge.stdout)![1]}`],
    ]
  }

  /** For as long as the test runs. */
  static async start(env: Readonly<Record<string, string>> = {}): Promise<Runbook> {
    const directory = await scratchDirectory()
    await writeFile(join(directory, 'limits.yaml'), BUNDLE)
    await writeFile(join(directory, 'admin-token'), ADMIN_TOKEN)
    const edge = await serving({ ...settingsIn(SERVE, directory), EDGE_WORKERS: '2', ...env })
    const shell = new ShellSession(directory, join(ROOT, 'program/edge.js'), { USER: 'ada' })
    onTestFinished(() => shell.end())
    const runbook = new Runbook(edge, shell, directory)
    await runbook.run(EXPORTS)
    return runbook
  }

  /** Runs the commands of a section in order, and compares each block with what the page shows below it. */
  async follow(title: string): Promise<void> {
    const section = SECTIONS.find((each) => titleOf(each) === title)!
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
    return printed.replaceAll(this.#directory, SHOWN_DIRECTORY)
  }

  /** From now on, the first stands for the second in commands. */
  replace(shown: string, real: string): void {
    this.#replacements.push([shown, real])
  }
}

function titleOf(section: string): string {
  return section.slice(0, section.indexOf('\n'))
}

/** `A=1 B=2 edge serve` as settings: ports are free ones, and files are in the directory. */
function settingsIn(command: string, directory: string): Record<string, string> {
  const settings = [...command.matchAll(/(EDGE_\w+)=(\S+)/g)].map(([, name, value]): [string, string] => {
    if (name!.endsWith('_PORT')) return [name!, '0']
    if (name!.endsWith('_FILE')) return [name!, join(directory, basename(value!))]
    return [name!, name === 'EDGE_ADMIN_TOKEN' ? ADMIN_TOKEN : value!]
  })
  return Object.fromEntries(settings)
}

interface Step {
  readonly commands: string
  /** Empty where the page shows none. */
  readonly output: string
}

function stepsOf(section: string): Step[] {
  const blocks = [...section.matchAll(/^```(sh)?\n(.*?)^```$/gms)].map(([, language, text]) => ({
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
    .every((line) => /^edge (?:status|top|caller|counters|validate|bundle)\b/.test(line))
}

function fits(output: string, printed: string): boolean {
  return shownShape(output).test(`${shapeOf(printed)}\n`)
}
