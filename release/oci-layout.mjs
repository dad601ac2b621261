// Writes an OCI image layout (image-spec 1.1) with one image for each architecture: release/image.sh has made their layers.
// Usage: node release/oci-layout.mjs DIRECTORY USER ARCHITECTURE=LAYER.tar,LAYER.tar...
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

const [directory, user, ...images] = process.argv.slice(2)
const PACKAGE = JSON.parse(readFileSync(fileURLToPath(new URL('../package.json', import.meta.url)), 'utf8'))
const CREATED = new Date(Number(process.env.SOURCE_DATE_EPOCH ?? 0) * 1000).toISOString().replace('.000Z', 'Z')
const BLOBS = join(directory, 'blobs/sha256')
const TYPES = 'application/vnd.oci.image'

/** How the program runs unless whoever starts a container says otherwise. `docs/deployment.md` has the rest: mounts, memory, a read-only root. */
const RUN = {
  User: `${user}:${user}`,
  ExposedPorts: { '8080/tcp': {} },
  Env: ['PATH=/usr/local/bin:/usr/bin:/bin'],
  Entrypoint: ['/usr/local/bin/edge'],
  Cmd: ['serve'],
  WorkingDir: '/',
  StopSignal: 'SIGTERM',
  Labels: {
    'org.opencontainers.image.title': 'edge',
    'org.opencontainers.image.description': PACKAGE.description,
    'org.opencontainers.image.version': PACKAGE.version,
    'org.opencontainers.image.licenses': PACKAGE.license,
  },
  // Docker reads this; Kubernetes and the OCI specification do not know it.
  Healthcheck: { Test: ['CMD', '/usr/local/bin/edge', 'health'], Interval: 10e9, Timeout: 6e9, StartPeriod: 30e9, Retries: 3 },
}

mkdirSync(BLOBS, { recursive: true })
const written = new Map()
const manifests = images.map((image) => writeImage(...image.split('=', 2)))
const index = writeJson(`${TYPES}.index.v1+json`, { schemaVersion: 2, mediaType: `${TYPES}.index.v1+json`, manifests })
const named = { ...index, annotations: { 'org.opencontainers.image.ref.name': PACKAGE.version } }
writeFileSync(join(directory, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}\n')
writeFileSync(
  join(directory, 'index.json'),
  `${JSON.stringify({ schemaVersion: 2, mediaType: `${TYPES}.index.v1+json`, manifests: [named] })}\n`,
)
process.stdout.write(`${index.digest}\n`)

function writeImage(architecture, tars) {
  const layers = tars.split(',').map(writeLayer)
  const config = {
    created: CREATED,
    architecture,
    os: 'linux',
    config: RUN,
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
    history: layers.map(({ name }) => ({ created: CREATED, created_by: `release/image.sh: ${name}` })),
  }
  const manifest = {
    schemaVersion: 2,
    mediaType: `${TYPES}.manifest.v1+json`,
    config: writeJson(`${TYPES}.config.v1+json`, config),
    layers: layers.map(({ descriptor }) => descriptor),
  }
  return { ...writeJson(manifest.mediaType, manifest), platform: { architecture, os: 'linux' } }
}

/** Architectures share the layer of the program. */
function writeLayer(tar) {
  const known = written.get(tar)
  if (known !== undefined) return known
  const bytes = readFileSync(tar)
  const descriptor = writeBlob(`${TYPES}.layer.v1.tar+gzip`, gzipSync(bytes))
  const layer = { name: basename(tar, '.tar').replace(/-.*/, ''), diffId: digestOf(bytes), descriptor }
  written.set(tar, layer)
  return layer
}

function writeJson(mediaType, value) {
  return writeBlob(mediaType, Buffer.from(JSON.stringify(value)))
}

function writeBlob(mediaType, bytes) {
  const digest = digestOf(bytes)
  writeFileSync(join(BLOBS, digest.slice('sha256:'.length)), bytes)
  return { mediaType, digest, size: bytes.length }
}

function digestOf(bytes) {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}
