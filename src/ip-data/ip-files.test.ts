import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { scratchDirectory } from '../../test/support/service/running.ts'
import { until } from '../../test/support/until.ts'
import type { IpFile } from './ip-databases.ts'
import { followIpFiles, type IpFileListener } from './ip-files.ts'

const LINES = Array.from({ length: 50_000 }, (_, i) => `10.${(i >>> 8) >>> 8}.${(i >>> 8) & 255}.${i & 255},type ${i % 50}`)

test('a long list is read a little at a time, and what else there is to do is done in between', async () => {
  const path = join(await scratchDirectory(), 'types.csv')
  await writeFile(path, LINES.join('\n'))
  const heard: (IpFile | string | undefined | number)[] = []
  const turns = { count: 0 }
  const files = followIpFiles({ geoip: undefined, ipType: path, torExits: undefined }, listenerOf(heard))
  const ticking = setInterval(() => turns.count++, 1)
  await files.started
  clearInterval(ticking)
  files.stop()
  expect(heard.slice(-2)).toEqual([{ path, data: { kind: 'ipType', networks: expect.anything() } }, LINES.length])
  expect(turns.count).toBeGreaterThan(5)
})

test('one that is being read when the service stops is left alone', async () => {
  const path = join(await scratchDirectory(), 'types.csv')
  await writeFile(path, LINES.join('\n'))
  const heard: (IpFile | string | undefined | number)[] = []
  const files = followIpFiles({ geoip: undefined, ipType: path, torExits: undefined }, listenerOf(heard))
  await until(() => heard.length === 1)
  files.stop()
  await files.started
  expect(heard).toHaveLength(1)
})

test('services of one process share the countries that come with the package', async () => {
  const heard: (IpFile | string | undefined | number)[] = []
  for (let services = 0; services < 2; services++) {
    const files = followIpFiles({ geoip: undefined, ipType: undefined, torExits: undefined }, listenerOf(heard))
    await files.started
    files.stop()
  }
  const [first, second] = heard.map((file) => ((file as IpFile).data as { bytes: SharedArrayBuffer }).bytes)
  expect(first!.byteLength).toBeGreaterThan(1_000_000)
  expect(second).toBe(first)
})

function listenerOf(heard: (IpFile | string | undefined | number)[]): IpFileListener {
  return {
    onContent: (file) => void heard.push(file),
    onLoaded: (_path, entryCount) => void heard.push(entryCount),
    onProblem: (_path, problem) => void heard.push(problem),
  }
}
