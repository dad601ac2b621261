import { writeFileSync } from 'node:fs'
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { replaceFile, verdictAfter } from '../../support/bundles/bundle-file.ts'
import { burstJson, burstYaml } from '../../support/bundles/bundles.ts'
import type { Cli } from '../../support/service/cli.ts'
import type { Edge } from '../../support/service/edge.ts'
import { ask } from '../../support/service/http.ts'
import { ManualClock } from '../../support/service/manual-clock.ts'
import { running, scratchDirectory, serving } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

describe.concurrent.each([
  ['bundle.json', burstJson],
  ['bundle.yaml', burstYaml],
  ['bundle.yml', burstYaml],
  ['bundle.YAML', burstYaml],
  ['bundle', burstJson],
] as const)('%s', (fileName, write) => {
  test('is taken when it is replaced by rename, and when it is edited in place', async (t) => {
    const edge = await running({ bundle: write(1, 11), fileName, clock: new ManualClock() }, t)
    expect(await limit(edge)).toBe('11')
    expect(await verdictAfter(edge, () => replaceFile(edge.bundlePath, write(2, 22)))).toMatchObject({
      event: 'bundle_applied',
      version: '2',
    })
    expect(await limit(edge)).toBe('22')
    expect(await verdictAfter(edge, async () => writeFileSync(edge.bundlePath, write(3, 33)))).toMatchObject({
      event: 'bundle_applied',
      version: '3',
    })
    expect(await limit(edge)).toBe('33')
    expect(JSON.parse((await edge.get('/readyz')).body)).toMatchObject({ status: 'ready', policy_version: '3' })
  })
})

test('an edit that keeps the size is seen', async (t) => {
  const edge = await running({ bundle: burstJson(1, 11), clock: new ManualClock() }, t)
  expect(await verdictAfter(edge, async () => writeFileSync(edge.bundlePath, burstJson(2, 22)))).toMatchObject({
    event: 'bundle_applied',
    version: '2',
  })
})

describe.concurrent('a ConfigMap as Kubernetes mounts it', () => {
  test('is followed through the swap of ..data, again and again', async (t) => {
    const mount = await scratchDirectory(t)
    await mountVersion(mount, 1, 11)
    await symlink('..data/bundle.json', join(mount, 'bundle.json'))
    const edge = await running({ env: { EDGE_CONFIG_FILE: join(mount, 'bundle.json') }, clock: new ManualClock() }, t)
    expect(await limit(edge)).toBe('11')
    for (const version of [2, 3]) {
      const verdict = await verdictAfter(edge, async () => {
        await mountVersion(mount, version, version * 11)
        await rm(join(mount, `..v${version - 1}`), { recursive: true })
      })
      expect(verdict).toMatchObject({ event: 'bundle_applied', version: String(version) })
      expect(await limit(edge)).toBe(String(version * 11))
    }
  })

  async function mountVersion(mount: string, version: number, burst: number): Promise<void> {
    await mkdir(join(mount, `..v${version}`))
    await writeFile(join(mount, `..v${version}`, 'bundle.json'), burstJson(version, burst))
    await symlink(`..v${version}`, join(mount, '..data_tmp'))
    await rename(join(mount, '..data_tmp'), join(mount, '..data'))
  }
})

describe.concurrent('a bundle file that comes and goes', () => {
  test('is taken when it appears after the start, in a directory that appears too', async (t) => {
    const directory = join(await scratchDirectory(t), 'later')
    const path = join(directory, 'bundle.json')
    const edge = await running({ env: { EDGE_CONFIG_FILE: path }, clock: new ManualClock() }, t)
    expect(await untilLogged(edge, 'bundle_unreadable')).toContainEqual(
      expect.objectContaining({ event: 'bundle_unreadable', path, reason: 'there is no such file' }),
    )
    expect((await edge.get('/livez')).body).toBe('ok')
    expect(await edge.get('/readyz')).toMatchObject({ status: 503, body: '{"status":"not_ready","reason":"no_policy_loaded"}' })
    expect(await edge.decide()).toMatchObject({ status: 503, headers: { 'x-edge-reason': 'no_bundle_loaded' } })

    await mkdir(directory)
    expect(await verdictAfter(edge, () => replaceFile(path, burstJson(1, 11)))).toMatchObject({ event: 'bundle_applied' })
    expect((await edge.get('/readyz')).status).toBe(200)
    expect(await limit(edge)).toBe('11')
  })

  test('changes nothing when it vanishes; comes back as no news; goes on with the next version', async (t) => {
    const edge = await running({ bundle: burstJson(1, 11), clock: new ManualClock() }, t)
    await edge.decideTimes(4)
    const ready = (await edge.get('/readyz')).body

    const gone = await verdictAfter(edge, () => rm(edge.bundlePath))
    expect(gone).toMatchObject({
      event: 'bundle_unreadable',
      level: 40,
      reason: 'there is no such file',
      msg: expect.stringContaining('version 1 stays active'),
    })
    expect((await edge.decide()).headers['ratelimit-remaining']).toBe('6')
    expect((await edge.get('/readyz')).body).toBe(ready)

    expect(await verdictAfter(edge, () => replaceFile(edge.bundlePath, burstJson(1, 11)))).toMatchObject({ event: 'bundle_unchanged' })
    expect((await edge.decide()).headers['ratelimit-remaining']).toBe('5')

    await verdictAfter(edge, () => rm(edge.bundlePath))
    expect(await verdictAfter(edge, () => replaceFile(edge.bundlePath, burstJson(2, 22)))).toMatchObject({
      event: 'bundle_applied',
      version: '2',
    })
    expect(await edge.metric('edge_bundle_reloads_total{result="unreadable"}')).toBe(2)
  })

  test('that is bad at the start leaves the service not ready until a good one appears', async (t) => {
    const edge = await running({ bundle: '{', clock: new ManualClock() }, t)
    expect(await untilLogged(edge, 'bundle_refused')).toContainEqual(
      expect.objectContaining({ event: 'bundle_refused', active_version: null }),
    )
    expect((await edge.decide()).status).toBe(503)
    expect(await verdictAfter(edge, () => replaceFile(edge.bundlePath, burstJson(0, 11)))).toMatchObject({
      event: 'bundle_applied',
      version: '0',
    })
    expect((await edge.decide()).status).toBe(200)
  })
})

describe.concurrent('SIGHUP', () => {
  test('looks at the file again, changed or not, and drops nothing', async (t) => {
    const path = join(await scratchDirectory(t), 'bundle.json')
    await replaceFile(path, burstJson(1, 11))
    const cli = await serving({ EDGE_CONFIG_FILE: path }, [], t)
    for (let i = 1; i <= 3; i++) {
      cli.process.kill('SIGHUP')
      await until(() => events(cli, 'bundle_unchanged') === i)
    }
    await writeFile(path, burstJson(2, 22))
    cli.process.kill('SIGHUP')
    await until(() => events(cli, 'bundle_applied') === 2)
    await writeFile(path, '{')
    cli.process.kill('SIGHUP')
    await until(() => events(cli, 'bundle_refused') > 0)
    expect(JSON.parse((await ask(cli.port, 'GET', '/readyz')).body)).toMatchObject({ status: 'ready', policy_version: '2' })
  })
})

async function limit(edge: Edge): Promise<string | undefined> {
  return (await edge.decide()).headers['ratelimit-limit']
}

function events(cli: Cli, name: string): number {
  return cli.log.filter(({ event }) => event === name).length
}
