import { lstat, readFile, rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { publishing } from '../../support/admin/published-bundles.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { command } from '../../support/service/command.ts'
import { finished, scratchDirectory } from '../../support/service/running.ts'
import { until } from '../../support/until.ts'

afterEach(() => {
  vi.unstubAllEnvs()
})

test('edge rollback --publish: a symbolic link stays one', async () => {
  const directory = await scratchDirectory()
  const [path, link] = [join(directory, 'real.json'), join(directory, 'limits.json')]
  await writeFile(path, JSON.stringify(bundle(41)))
  await symlink(path, link)
  const edge = await publishing({ EDGE_CONFIG_FILE: link })
  await writeFile(`${path}.next`, JSON.stringify(bundle(42, policy('bad', { rules: [bucketRule('r', [], 5)] }))))
  await rename(`${path}.next`, path)
  await until(() => edge.logged('bundle_applied').length === 2)
  expect((await command('rollback', '--publish', link, '--reason', 'test')).stdout).toBe('Version 43 is active, with the policies of 41.\n')
  expect((await lstat(link)).isSymbolicLink()).toBe(true)
  expect(await readFile(path, 'utf8')).toBe(JSON.stringify(bundle(43)))
})

test('edge rollback goes back to one of the last ten bundles', async () => {
  await publishing({}, ...Array.from({ length: 12 }, (_, i) => bundle(i + 1)))
  expect((await command('rollback', '--to', '2')).stderr).toContain('version 2 is not among those that the instance still has (11, 10, 9')
  expect((await command('rollback', '--to', '3')).stdout).toBe(JSON.stringify(bundle(13)))
})

test('the program goes back from a bundle so large that a thread of its own reads it', async () => {
  const large = (version: number, limit: number): object => ({
    ...bundle(version, policy('p', { rules: [bucketRule('r', ['header:x-k'], limit)] })),
    metadata: { note: 'x'.repeat(1 << 20) },
  })
  const edge = await publishing({}, large(1, 9), large(2, 5))
  const env = { EDGE_ADMIN_URL: `http://127.0.0.1:${edge.adminPort}`, EDGE_ADMIN_TOKEN: ADMIN_TOKEN }
  const { status, stdout, stderr } = await finished(['rollback', '--publish', edge.bundlePath, '--reason', 'test'], env)
  expect({ status, stdout, stderr }).toMatchObject({ status: 0, stdout: 'Version 3 is active, with the policies of 1.\n' })
  expect(await readFile(edge.bundlePath, 'utf8')).toBe(JSON.stringify(large(3, 9)))
  const { json } = await askAdmin(edge.adminPort, 'GET', 'bundles/3/changes?from=1')
  expect(json.changes.policies).toEqual({ added: 0, removed: 0, changed: 0, unchanged: 1 })
})
