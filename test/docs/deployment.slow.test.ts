import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { earlierProgram } from '../support/packaging/earlier-program.ts'
import { ask } from '../support/service/http.ts'
import { scratchDirectory, thisTest } from '../support/service/running.ts'
import { serverPort } from '../support/service/server-port.ts'
import { original } from '../support/service/wire.ts'
import { until } from '../support/until.ts'
import { codeBlocks, ROOT, readText } from './markdown.ts'
import { ShellSession } from './shell-session.ts'

const PAGE = readText('docs/deployment.md')
const LIMITS = `bundle_version: 1
policies:
  - id: all
    spec:
      rules:
        - { name: slow, limit_keys: ["header:x-key"], algorithm: token_bucket, algorithm_config: { tokens_per_second: 1.0e-9, burst: 100 } }
`

test('an earlier program is upgraded with what was counted, goes back with it, and goes back to the copy, by the commands of the page', async () => {
  const directory = await scratchDirectory()
  const [earlier, current] = [await earlierProgram(thisTest), join(ROOT, 'program/edge.js')]
  await writeFile(join(directory, 'limits.yaml'), LIMITS)
  const [port, adminPort] = [await serverPort(), await serverPort()]
  const shell = new ShellSession(directory, current, { EDGE_PORT: String(port), EDGE_HOST: '127.0.0.1' })
  onTestFinished(async () => {
    await shell.run('kill -TERM $edge; wait $edge')
    shell.end()
  })
  const follow = (commands: string, program: string): Promise<string> =>
    shell.run(
      commands
        .replaceAll('node program/edge.js', `'${process.execPath}' '${program}'`)
        .replaceAll('9090', String(adminPort))
        .replaceAll('serve &', 'serve >edge.log 2>&1 &'),
    )
  const [start, health] = codeBlocks(section('## A bare process'), 'sh') as [string, string]
  const [upgrade, rollback] = codeBlocks(section('### One instance with a state file'), 'sh') as [string, string]
  const isReady = () => until(async () => (await follow(`${health.trim()} >/dev/null && echo ready`, current)) === 'ready\n')
  const left = async (): Promise<number> =>
    Number((await ask(port, 'POST', '/v1/decision', original('/', ['X-Key', 'acme']))).headers['ratelimit-remaining'])

  await follow(start, earlier)
  await isReady()
  expect([await left(), await left()]).toEqual([99, 98])
  await follow(upgrade, current)
  await isReady()
  expect([await left(), await left()]).toEqual([97, 96])
  // Both write the same version of the format, so the way back is the way there.
  await follow(upgrade, earlier)
  await isReady()
  expect([await left(), await left()]).toEqual([95, 94])
  await follow(rollback, earlier)
  await isReady()
  expect(await left()).toBe(95)
})

/** The part of the page from a heading to the next one of its level or above. */
function section(heading: string): string {
  const from = PAGE.indexOf(`${heading}\n`)
  const level = heading.indexOf(' ')
  const next = PAGE.slice(from + heading.length).search(new RegExp(`^#{1,${level}} `, 'm'))
  return PAGE.slice(from, next < 0 ? undefined : from + heading.length + next)
}
