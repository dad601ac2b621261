import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { ADMIN_TOKEN, adminPortOf } from '../support/admin/admin-client.ts'
import type { Cli } from '../support/service/cli.ts'
import { scratchDirectory, serving } from '../support/service/running.ts'
import { FollowedCommands, settingsIn } from './followed-commands.ts'
import { codeBlocks, ROOT, readText } from './markdown.ts'
import { ShellSession } from './shell-session.ts'

const PAGE = readText('docs/runbook.md')
const [INTRODUCTION, ...SECTIONS] = PAGE.split(/^## /m) as [string, ...string[]]
const [EXPORTS, SERVE] = codeBlocks(INTRODUCTION, 'sh') as [string, string]
const [BUNDLE, ROUTED_BUNDLE, SPENDING_BUNDLE] = codeBlocks(PAGE, 'yaml') as [string, string, string]

/** Where the page has its files. */
const SHOWN_DIRECTORY = '/var/lib/edge'

/** The sections of the page that have commands. */
export function runbookTitles(): string[] {
  return SECTIONS.filter((section) => codeBlocks(section, 'sh').length > 0).map(titleOf)
}

/** An instance as docs/runbook.md starts it, with two workers, and a shell beside it. */
export class Runbook {
  readonly #commands: FollowedCommands

  private constructor(edge: Cli, shell: ShellSession, directory: string) {
    this.#commands = new FollowedCommands(shell, directory, SHOWN_DIRECTORY, [
      [SHOWN_DIRECTORY, directory],
      ['localhost:8080', `127.0.0.1:${edge.port}`],
      ['localhost:9090', `127.0.0.1:${adminPortOf(edge)}`],
    ])
  }

  /** For as long as the test runs. */
  static async start(env: Readonly<Record<string, string>> = {}, bundle = BUNDLE): Promise<Runbook> {
    const directory = await scratchDirectory()
    await writeFile(join(directory, 'limits.yaml'), bundle)
    await writeFile(join(directory, 'admin-token'), ADMIN_TOKEN)
    const edge = await serving({
      ...settingsIn(SERVE, directory, ADMIN_TOKEN),
      EDGE_WORKERS: '2',
      ...env,
      ...(env['EDGE_USAGE_DIR'] && { EDGE_USAGE_DIR: join(directory, env['EDGE_USAGE_DIR']) }),
    })
    const shell = new ShellSession(directory, join(ROOT, 'program/edge.js'), { USER: 'ada' })
    onTestFinished(() => shell.end())
    const runbook = new Runbook(edge, shell, directory)
    await runbook.run(EXPORTS)
    return runbook
  }

  /** A proxy with the bundle that has backends: those that the page names, by their URLs there. */
  static startProxy(
    providers: Readonly<Record<string, { readonly url: string }>>,
    env: Readonly<Record<string, string>> = {},
  ): Promise<Runbook> {
    const bundle = Object.entries(providers).reduce((text, [shown, { url }]) => text.replace(shown, url), ROUTED_BUNDLE)
    const hosts = Object.values(providers).map(({ url }) => new URL(url).host)
    const secrets = { EDGE_SECRET_OPENAI: 'canary-a', EDGE_SECRET_AZURE: 'canary-b' }
    return Runbook.start({ EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_HOSTS: hosts.join(','), ...secrets, ...env }, bundle)
  }

  /** A proxy with the bundle that has keys and a budget. */
  static startSpending(url: string): Promise<Runbook> {
    const env = {
      EDGE_MODE: 'reverse_proxy',
      EDGE_BACKEND_HOSTS: new URL(url).host,
      EDGE_SECRET_OPENAI: 'canary-a',
      EDGE_USAGE_DIR: 'usage',
    }
    return Runbook.start(env, SPENDING_BUNDLE.replace('https://api.openai.com', url))
  }

  /** Runs the commands of a section in order, and compares each block with what the page shows below it. */
  follow(title: string): Promise<void> {
    return this.#commands.follow(SECTIONS.find((each) => titleOf(each) === title)!)
  }

  /** What the commands print on this instance. */
  run(commands: string): Promise<string> {
    return this.#commands.run(commands)
  }

  /** From now on, the first stands for the second in commands. */
  replace(shown: string, real: string): void {
    this.#commands.replace(shown, real)
  }
}

function titleOf(section: string): string {
  return section.slice(0, section.indexOf('\n'))
}
