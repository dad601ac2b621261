// Compares Node binaries that came from elsewhere with those that Node publishes: it fetches the list of checksums and the archive for each
// architecture, verifies the archive by the list, and compares the binary inside with ours. The list is trusted because of where it comes from.
// Usage: node release/published-node.mjs URL ARCHITECTURE=BINARY..., where URL is the folder of the version that release/node-binary.sh pins
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What Node calls the architectures of Debian. */
const NAMES = { amd64: 'linux-x64', arm64: 'linux-arm64' }

const [url, ...binaries] = process.argv.slice(2)
const scratch = mkdtempSync(join(tmpdir(), 'published-node-'))
try {
  if (binaries.length === 0) throw new Error('Usage: node release/published-node.mjs URL ARCHITECTURE=BINARY...')
  const sums = new Map(
    Array.from(String(await fetched('SHASUMS256.txt')).matchAll(/^([0-9a-f]{64}) {2}(\S+)$/gm), ([, sum, name]) => [name, sum]),
  )
  for (const binary of binaries) await compare(sums, ...binary.split(/=(.*)/s, 2))
} catch (error) {
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
} finally {
  rmSync(scratch, { recursive: true })
}

async function compare(sums, architecture, binary) {
  const suffix = NAMES[architecture]
  if (suffix === undefined) throw new Error(`${architecture}: expected amd64 or arm64`)
  // Its name begins with the version, which is also in the address.
  const name = [...sums.keys()].find((each) => /^node-v[\d.]+-/.test(each) && each.endsWith(`-${suffix}.tar.gz`))
  if (name === undefined) throw new Error(`SHASUMS256.txt names no archive for ${suffix}`)
  const archive = await fetched(name)
  expectSame(name, sha256(archive), sums.get(name), 'in SHASUMS256.txt')
  writeFileSync(join(scratch, 'archive'), archive)
  execFileSync('tar', [
    '-xzf',
    join(scratch, 'archive'),
    '-C',
    scratch,
    '--strip-components=2',
    `${name.slice(0, -'.tar.gz'.length)}/bin/node`,
  ])
  expectSame(binary, sha256(readFileSync(binary)), sha256(readFileSync(join(scratch, 'node'))), `in ${name}`)
  process.stdout.write(`${binary} is the one in ${name}\n`)
}

async function fetched(name) {
  const response = await fetch(`${url}/${name}`)
  if (!response.ok) throw new Error(`${url}/${name}: status ${response.status}`)
  return Buffer.from(await response.arrayBuffer())
}

function expectSame(what, actual, expected, where) {
  if (actual !== expected) throw new Error(`${what}: its SHA-256 is ${actual}, but ${where} it is ${expected}`)
}

function sha256(bytes) {
  return createHash('sha256').update(bytes).digest('hex')
}
