import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { ADMIN_TOKEN, adminPortOf } from '../support/admin/admin-client.ts'
import { flagged } from '../support/llm/fake-llm-client.ts'
import { scratchDirectory, serving } from '../support/service/running.ts'
import { FollowedCommands, settingsIn } from './followed-commands.ts'
import { codeBlocks, ROOT } from './markdown.ts'
import { ShellSession } from './shell-session.ts'

const SERVE = /^```sh\n(?:(?!^```).)*edge serve &\n.*?^```$/ms

const FAKE_LLM = /^edge fake-llm --port (\d+)(.*) &$/gm

/**
 * Does what a section of a page says: starts its `edge fake-llm` commands, saves its bundle as `limits.yaml`, runs the commands before `edge serve`, starts the
 * service with these settings, on ports of its own, and runs the others. Each block must print what the page shows below it. `backendUrl` takes the place of
 * EDGE_BACKEND_URL and of the backends that the bundle has on other hosts.
 */
export async function followSection(page: string, backendUrl?: string): Promise<void> {
  const moved = await startFakeLlms(page)
  if (backendUrl !== undefined) {
    const { host } = new URL(backendUrl)
    for (const [, url, name] of page.matchAll(/^ +url: (https:\/\/([\w.-]+))$/gm)) moved.push([url!, backendUrl], [name!, host])
  }
  const section = moved.reduce((text, [shown, real]) => text.replaceAll(shown, real), page.replace(FAKE_LLM, ':'))
  const [serve] = SERVE.exec(section) ?? []
  if (serve === undefined) throw new Error('the section starts no service')
  const directory = await scratchDirectory()
  const [bundle] = codeBlocks(section, 'yaml')
  await writeFile(join(directory, 'limits.yaml'), bundle!)
  await writeFile(join(directory, 'admin-token'), ADMIN_TOKEN)
  const shell = new ShellSession(directory, join(ROOT, 'program/edge.js'), { USER: 'ada' })
  onTestFinished(() => shell.end())
  const [before, after] = section.split(serve) as [string, string]
  await new FollowedCommands(shell, directory, '.', []).follow(before)
  const [settings, ...exports] = serve.split('edge serve &\n') as [string, string]
  const env = settingsIn(settings, directory, ADMIN_TOKEN)
  const edge = await serving({ ...env, ...(env['EDGE_BACKEND_URL'] && backendUrl && { EDGE_BACKEND_URL: backendUrl }) })
  const commands = new FollowedCommands(shell, directory, '.', [['localhost:8080', `127.0.0.1:${edge.port}`]])
  if (env['EDGE_ADMIN_PORT'] !== undefined) commands.replace('localhost:9090', `127.0.0.1:${adminPortOf(edge)}`)
  await commands.run(exports.join('').replace('```', ''))
  await commands.follow(after)
}

/** Where the page has its models, and where they are. */
async function startFakeLlms(page: string): Promise<[string, string][]> {
  const commands = [...page.matchAll(FAKE_LLM)]
  return Promise.all(
    commands.map(async ([, port, options]): Promise<[string, string]> => {
      const { port: real } = await flagged(options!.split(' ').filter((word) => word !== ''))
      return [`localhost:${port}`, `127.0.0.1:${real}`]
    }),
  )
}
