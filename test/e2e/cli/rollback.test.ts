import { execFile } from 'node:child_process'
import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { askAdmin } from '../../support/admin/admin-client.ts'
import { publishing } from '../../support/admin/published-bundles.ts'
import { BundleServer } from '../../support/bundles/bundle-server.ts'
import { bucketRule, bundle, matching, policy } from '../../support/bundles/bundles.ts'
import { newSigner } from '../../support/bundles/signing.ts'
import { command } from '../../support/service/command.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

afterEach(() => {
  vi.unstubAllEnvs()
})

const GOOD = `{ "bundle_version": 41,
  "policies": [{ "id": "api", "spec": { "rules": [
    { "name": "r", "limit_keys": [], "algorithm": "token_bucket", "algorithm_config": { "rate": "9/second" } } ] } }]
}
`
const BAD = GOOD.replace('41', '42').replace('9/second', '1/day')
const WHY = ['--reason', 'ticket 4711', '--actor', 'ada']
const BACK = GOOD.replace('41', '43')

describe('edge rollback', () => {
  test('prints the policies of the bundle before under the next version, and changes nothing', async () => {
    const edge = await publishing({}, GOOD, BAD)
    expect(await command('rollback')).toEqual({
      status: 0,
      stdout: BACK,
      stderr: `edge rollback: this is version 43 with the policies of 41; it is not published: edge rollback --publish ${edge.bundlePath} --reason 'why' does that\n`,
    })
    expect(await readFile(edge.bundlePath, 'utf8')).toBe(BAD)
  })

  test('--publish writes them to the file of the instance, and waits until they are active', async () => {
    const edge = await publishing({}, GOOD, BAD)
    await chmod(edge.bundlePath, 0o644)
    expect(await command('rollback', '--publish', edge.bundlePath, ...WHY)).toEqual({
      status: 0,
      stdout: 'Version 43 is active, with the policies of 41.\n',
      stderr: '',
    })
    expect(await readFile(edge.bundlePath, 'utf8')).toBe(BACK)
    expect((await stat(edge.bundlePath)).mode & 0o777).toBe(0o644)
    expect((await edge.decide()).headers['ratelimit-limit']).toBe('9')
    expect(await command('rollback', '--publish', edge.bundlePath, ...WHY)).toEqual({
      status: 1,
      stdout: '',
      stderr:
        'edge rollback: version 43 already has the policies of 41: it is what undid 42. To go back all the same, or further, name a version with --to\n',
    })
    // And back again: the way out of a rollback is another one.
    expect((await command('rollback', '--to', '42', '--publish', edge.bundlePath, ...WHY)).stdout).toBe(
      'Version 44 is active, with the policies of 42.\n',
    )
    expect((await command('rollback', '--to', '041', '--publish', edge.bundlePath, ...WHY)).stdout).toBe(
      'Version 45 is active, with the policies of 41.\n',
    )
  })

  test('YAML keeps its comments, and credentials are there', async () => {
    const path = join(await scratchDirectory(), 'limits.yaml')
    const text = `# who may do what\nbundle_version: 7 # May\npolicies:\n  - id: vip\n    spec:\n      rules: [{ name: r, match: { bearer: hunter2 }, limit_keys: [], algorithm: unlimited }]\n`
    await writeFile(path, text)
    const edge = await publishing({ EDGE_CONFIG_FILE: path })
    await writeFile(path, 'bundle_version: 8\npolicies: []\n')
    await until(() => edge.logged('bundle_applied').length === 2)
    expect((await command('rollback', '--publish', path, ...WHY)).stdout).toBe('Version 9 is active, with the policies of 7.\n')
    expect(await readFile(path, 'utf8')).toBe(text.replace('7 #', '9 #'))
    expect(await untilLogged(edge, 'bundle_text_read')).toHaveLength(1)
    expect(JSON.stringify(edge.log)).not.toContain('hunter2')
  })

  test('the next version is above the one that the source offers in vain, too', async () => {
    const edge = await publishing({}, GOOD, BAD, BAD.replace('42', '77').replace('token_bucket', 'none'))
    const { stdout } = await command('rollback', '--publish', edge.bundlePath, ...WHY)
    expect(stdout).toBe('Version 78 is active, with the policies of 41.\n')
  })
})

describe('edge rollback --publish writes and prints nothing but the way to go', () => {
  test('where the instance reads another file', async () => {
    const edge = await publishing({}, GOOD, BAD)
    const other = join(dirname(edge.bundlePath), 'other.json')
    expect(await command('rollback', '--publish', other, ...WHY)).toEqual({
      status: 1,
      stdout: '',
      stderr: `edge rollback: nothing is published: the instance reads ${edge.bundlePath}, not ${other}. To go back: edge rollback --publish ${edge.bundlePath} --reason 'ticket 4711'\n`,
    })
    expect(await stat(other).catch(() => undefined)).toBeUndefined()
  })

  test('where it reads a URL', async () => {
    const server = await BundleServer.start()
    server.publish(GOOD)
    const edge = await publishing({ EDGE_CONFIG_FILE: '', EDGE_CONFIG_URL: server.url, EDGE_CONFIG_POLL_INTERVAL: '1' })
    server.publish(BAD)
    await until(() => edge.logged('bundle_applied').length === 2)
    const file = join(await scratchDirectory(), 'limits.json')
    expect(await command('rollback', '--to', '41', '--publish', file, ...WHY)).toEqual({
      status: 1,
      stdout: '',
      stderr: `edge rollback: nothing is published: the instance reads a URL. To go back: edge rollback --to 41 > limits.json, and put that file where ${server.url} comes from\n`,
    })
    const { stdout, stderr } = await command('rollback')
    expect(stdout).toBe(BACK)
    expect(stderr).toContain(`it is not published: the instance reads a URL. Put it where ${server.url}`)
  })

  test('where it takes signed bundles only', async () => {
    const signer = newSigner()
    const edge = await publishing({ EDGE_CONFIG_PUBLIC_KEY: signer.publicText })
    for (const [count, text] of [GOOD, BAD].entries()) {
      await writeFile(`${edge.bundlePath}.sig`, signer.sign(text))
      await writeFile(edge.bundlePath, text)
      await until(() => edge.logged('bundle_applied').length === count + 1)
    }
    const { status, stdout, stderr } = await command('rollback', '--publish', edge.bundlePath, ...WHY)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain(
      'the instance takes signed bundles only. To go back: edge rollback > bundle.json && edge sign --key KEY bundle.json, and put both files',
    )
    expect(await readFile(edge.bundlePath, 'utf8')).toBe(BAD)
    expect((await command('rollback')).stdout).toBe(BACK)
  })

  test('and reads no credentials for that', async () => {
    const text = (version: number): object =>
      bundle(version, policy('p', { rules: [matching({ bearer: 'hunter2' }, bucketRule('r', [], 5))] }))
    const edge = await publishing({}, text(1), bundle(2))
    expect((await command('rollback', '--publish', 'other.json', ...WHY)).stdout).toBe('')
    expect(edge.logged('bundle_text_read')).toEqual([])
    const { stdout, stderr } = await command('rollback', '--actor', 'eve')
    expect(stdout).toBe(JSON.stringify(text(3)))
    expect(stderr).toContain('edge rollback: the text has in clear the credentials that its rules match: keep it as safe as the bundle')
    expect((await command('changes')).stdout).toMatch(/ eve +credentials of bundle 1 read in clear\n/)
  })
})

describe('edge rollback', () => {
  test('--publish leaves who went back and why in the list of changes', async () => {
    const edge = await publishing({}, GOOD, BAD)
    await command('rollback', '--publish', edge.bundlePath, ...WHY)
    const { json } = await askAdmin(edge.adminPort, 'GET', 'changes?limit=1')
    expect(json.changes).toMatchObject([{ change: 'bundle_applied', before: '42', after: '43', actor: 'ada', reason: 'ticket 4711' }])
    expect((await command('changes')).stdout).toMatch(/ ada +bundle 43 in place of 42, from .*: ticket 4711\n/)
    const { status, stderr } = await command('rollback', '--publish', edge.bundlePath)
    expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining('expected --reason TEXT') as string })
    expect((await command('rollback', '--reason', 'x')).stderr).toContain('--reason: expected --publish FILE too')
  })

  test('never goes back to policies that were rolled back themselves, unless they are named', async () => {
    const rules = (limit: number) => policy('p', { rules: [bucketRule('r', [], limit)] })
    // 2 and 3 are bad, 4 undoes both, and 5 is new.
    const edge = await publishing({}, bundle(1, rules(1)), bundle(2, rules(2)), bundle(3, rules(3)), bundle(4, rules(1)))
    const undid = (text: string): string => `edge rollback: ${text}. To go back all the same, or further, name a version with --to\n`
    expect((await command('rollback')).stderr).toBe(undid('version 4 already has the policies of 1: it is what undid 3'))
    await edge.publish({ ...bundle(5, rules(2)), metadata: { by: 'a merge' } })
    await edge.publish(bundle(6, rules(6)))
    expect((await command('rollback')).stderr).toBe(
      undid('version 4 already has the policies of 1: it is what undid 2, whose policies 5 has again'),
    )
    expect((await command('rollback', '--to', '5')).status).toBe(0)
    await edge.publish({ ...bundle(7, rules(6)), metadata: { by: 'another merge' } })
    expect((await command('rollback')).stderr).toBe(undid('version 7 has the same policies as 6'))
    await edge.publish(bundle(8, rules(8)))
    expect((await command('rollback')).stdout).toBe(JSON.stringify({ ...bundle(9, rules(6)), metadata: { by: 'another merge' } }))
  })

  test('prints commands that a shell reads as they are meant', async () => {
    const path = join(await scratchDirectory(), "it's mine; true", 'limits.json')
    await mkdir(dirname(path))
    await writeFile(path, GOOD)
    const edge = await publishing({ EDGE_CONFIG_FILE: path })
    await writeFile(path, BAD)
    await until(() => edge.logged('bundle_applied').length === 2)
    const { stderr } = await command('rollback')
    const [, printed] = /published: (edge rollback .*) does that/.exec(stderr)!
    const { stdout } = await promisify(execFile)('sh', ['-c', `edge() { printf '%s\\n' "$@"; }; ${printed}`])
    expect(stdout.split('\n')).toEqual(['rollback', '--publish', path, '--reason', 'why', ''])
  })
})

describe('edge rollback says why not', () => {
  test('without another bundle, and what to do', async () => {
    await publishing({}, GOOD)
    expect((await command('rollback')).stderr).toBe(
      'edge rollback: no other bundle was active since the instance started: take the old policies from where you keep your bundles, and publish them with bundle_version 42\n',
    )
  })

  test('without any bundle', async () => {
    await publishing({})
    expect((await command('rollback')).stderr).toBe('edge rollback: no bundle is active, so there is none to go back from\n')
  })

  test('of versions that it does not have, or that are none', async () => {
    await publishing({}, GOOD, BAD)
    expect((await command('rollback', '--to', '42')).stderr).toBe('edge rollback: version 42 is active\n')
    expect((await command('rollback', '--to', '7')).stderr).toContain('version 7 is not among those that the instance still has (41): take')
    for (const to of ['x', '-1', '1.5', ''])
      expect((await command('rollback', `--to=${to}`)).stderr).toContain('--to: expected a version such as 41')
    expect((await command('rollback', '--publish=')).stderr).toContain('--publish: expected the file that the instance reads')
  })
})
