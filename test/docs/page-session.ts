import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { ADMIN_TOKEN, adminPortOf } from '../support/admin/admin-client.ts'
import { scratchDirectory, serving } from '../support/service/running.ts'
import { FollowedCommands, settingsIn } from './followed-commands.ts'
import { codeBlocks, ROOT } from './markdown.ts'
import { ShellSession } from './shell-session.ts'

const SERVE = /^```sh\n(?:(?!^```).)*edge serve &\n.*?^```$/ms

/**
 * Does what a section of a page says: saves its bundle as `limits.yaml`, runs the commands before `edge serve`, starts the service with these settings, on
 * ports of its own, and runs the others. Each block must print what the page shows below it. `backendUrl` takes the place of EDGE_BACKEND_URL.
 */
export async function followSection(section: string, backendUrl?: string): Promise<void> {
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
  const edge = await serving({ ...settingsIn(settings, directory, ADMIN_TOKEN), ...(backendUrl && { EDGE_BACKEND_URL: backendUrl }) })
  const commands = new FollowedCommands(shell, directory, '.', [
    ['localhost:8080', `127.0.0.1:${edge.port}`],
    ['localhost:9090', `127.0.0.1:${adminPortOf(edge)}`],
  ])
  await commands.run(exports.join('').replace('```', ''))
  await commands.follow(after)
}
