/**
 * What the container needs: its peak of memory under load by its limit, as the kernel counts it, or that the kernel killed it. Needs root and runc.
 * Usage: node --import ./test/support/run/typescript.mjs bench/container-memory.mjs IMAGE, where IMAGE is what release/image.sh wrote.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bucketRule, bundle, policy } from '../test/support/bundles/bundles.ts'
import { Container, readableFolder } from '../test/support/packaging/container.ts'
import { decisions, reloads, uploads } from '../test/support/packaging/container-load.ts'
import { OciImage } from '../test/support/packaging/oci-image.ts'
import { HttpBackend } from '../test/support/proxy/backend.ts'
import { serverPort } from '../test/support/service/server-port.ts'

const MIB = 1024 ** 2
const BUNDLE = JSON.stringify(bundle(1, policy('p', { rules: [bucketRule('r', ['header:x-api-key'], 1e6)] })))
const LOADS = {
  'decisions, 60,000': { run: ({ port }) => decisions(port, 60_000) },
  '20,000 decisions during 5 reloads of 3,000 policies': {
    run: ({ port, container, folder }) => Promise.all([decisions(port, 20_000), reloads(container, folder, 5, 3000)]),
  },
  'the same, by a program that cannot see its limit': {
    hidesLimit: true,
    run: ({ port, container, folder }) => Promise.all([decisions(port, 20_000), reloads(container, folder, 5, 3000)]),
  },
  'the proxy, 4,000 request bodies of 200 KB': { isProxy: true, run: ({ port }) => uploads(port, 4000, 200_000) },
}
const LIMITS_MIB = [64, 96, 128, 192, 256]

const image = await OciImage.open(process.argv[2], process.arch === 'arm64' ? 'arm64' : 'amd64')
const scratch = mkdtempSync(join(tmpdir(), 'edge-bench-'))
process.on('exit', () => rmSync(scratch, { recursive: true }))
await image.unpack(scratch)
const backend = await HttpBackend.listen((req, res) => void req.resume().on('end', () => res.end()))

console.log('| Load | Limit, MiB | Peak, MiB | Ends |\n| --- | --- | --- | --- |')
for (const [name, measured] of Object.entries(LOADS)) {
  for (const limitMib of LIMITS_MIB) {
    const { peakBytes, outcome } = await outcomeOf(measured, limitMib)
    console.log(`| ${name} | ${limitMib} | ${peakBytes === undefined ? '' : Math.round(peakBytes / MIB)} | ${outcome} |`)
  }
}
await backend.close()

async function outcomeOf({ run, isProxy, hidesLimit }, limitMib) {
  const endings = []
  const owner = { onTestFinished: (end) => void endings.push(end) }
  try {
    const folder = await readableFolder(owner)
    writeFileSync(join(folder, 'bundle.json'), BUNDLE)
    const env = {
      EDGE_HOST: '127.0.0.1',
      EDGE_PORT: String(await serverPort()),
      EDGE_ADMIN_PORT: String(await serverPort()),
      EDGE_WORKERS: '2',
      EDGE_LOG_LEVEL: 'error',
      EDGE_CONFIG_FILE: '/etc/edge/bundle.json',
      ...(isProxy ? { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: backend.url } : {}),
    }
    const options = { env, mounts: { '/etc/edge': folder }, memoryBytes: limitMib * MIB, hidesLimit }
    const container = await Container.start(scratch, image.config, options, owner)
    const port = await container.listening().catch(() => undefined)
    // Where there is little memory, a bundle may be refused: then nobody waits for it longer than EDGE_TEST_UNTIL_MS.
    const isDone = port !== undefined && (await run({ port, container, folder }).then(Boolean, () => false))
    if (container.hasEnded) return { outcome: `killed ${port === undefined ? 'as it starts' : 'under load'} (${await container.exited})` }
    const peakBytes = await container.peakBytes()
    await container.signal('TERM')
    return { peakBytes, outcome: `${isDone ? 'serves' : 'refuses a bundle'}, and stops with ${await container.exited}` }
  } finally {
    for (const end of endings.reverse()) await end()
  }
}
