// Prints what a release contains, in CycloneDX 1.6: the packages in program/ and in the operators' page, the Node that the image and the Debian package
// have inside with the libraries in it, and Debian's packages in the image. It also has the versions of what made these files, on which their bytes depend.
// The same inputs give the same bytes: the time is SOURCE_DATE_EPOCH.
// Usage: node release/sbom.mjs NODE IMAGE, where NODE is the binary and IMAGE the OCI layout that release/image.sh wrote
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const [node, image] = process.argv.slice(2)
const { name, version, license, description } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const TIMESTAMP = new Date(Number(process.env.SOURCE_DATE_EPOCH ?? 0) * 1000).toISOString().replace('.000Z', 'Z')

/** Libraries of which Node tells the version. The rest of what it tells are versions of interfaces and data. */
const IN_NODE =
  'acorn ada amaro ares brotli cjs_module_lexer icu llhttp nbytes ncrypto nghttp2 openssl simdjson simdutf sqlite undici uv uvwasi v8 zlib zstd'.split(
    ' ',
  )

const product = {
  type: 'application',
  'bom-ref': `pkg:npm/${name}@${version}`,
  name,
  version,
  description,
  ...licensed(license),
  purl: `pkg:npm/${name}@${version}`,
}
const components = [...npmPackages(), nodeComponent(), ...debianPackages()]
const content = {
  metadata: { timestamp: TIMESTAMP, tools: { components: builders() }, component: product },
  components,
  dependencies: [{ ref: product['bom-ref'], dependsOn: components.map((component) => component['bom-ref']) }],
}
const bom = {
  bomFormat: 'CycloneDX',
  specVersion: '1.6',
  serialNumber: `urn:uuid:${uuidOf(JSON.stringify(content))}`,
  version: 1,
  ...content,
}
process.stdout.write(`${JSON.stringify(bom, null, 2)}\n`)

/** The notices name every package of which a module was bundled; the lock file has the hashes of their archives. */
function npmPackages() {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
  const notices = readFileSync(join(ROOT, 'program/THIRD-PARTY-NOTICES'), 'utf8')
  return [...notices.matchAll(/^(@?[\w./-]+) (\d\S*) \((.+)\)$/gm)].map(([, name, version, license]) => {
    const locked = Object.entries(packages).find(([path, entry]) => path.endsWith(`node_modules/${name}`) && entry.version === version)
    if (locked === undefined)
      throw new Error(`${name} ${version} is in program/THIRD-PARTY-NOTICES, but not in package-lock.json; npm run build writes the former`)
    const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
    return { type: 'library', 'bom-ref': purl, name, version, ...hashed(locked[1].integrity), ...licensed(license), purl }
  })
}

/** An integrity is the algorithm and the digest in base64. */
function hashed(integrity) {
  const [, bits, digest] = /^sha(\d+)-(.+)$/.exec(integrity)
  return { hashes: [{ alg: `SHA-${bits}`, content: Buffer.from(digest, 'base64').toString('hex') }] }
}

function licensed(expression) {
  return { licenses: [{ expression }] }
}

function nodeComponent() {
  const versions = JSON.parse(execFileSync(node, ['--print', 'JSON.stringify(process.versions)'], { encoding: 'utf8', env: {} }))
  const purl = `pkg:generic/node@${versions.node}`
  return {
    type: 'application',
    'bom-ref': purl,
    name: 'node',
    version: versions.node,
    ...licensed('MIT'),
    cpe: `cpe:2.3:a:nodejs:node.js:${versions.node}:*:*:*:*:*:*:*`,
    purl,
    properties: [{ name: 'edge:in', value: 'image, Debian package' }],
    components: IN_NODE.filter((name) => name in versions).map((name) => ({
      type: 'library',
      'bom-ref': `${purl}#${name}`,
      name,
      version: versions[name],
    })),
  }
}

/** The packages of the first layer of each architecture's image, which has their descriptions where scanners look for them. */
function debianPackages() {
  const [{ digest }] = readJson(join(image, 'index.json')).manifests
  return readJson(blob(digest)).manifests.flatMap(({ digest }) => {
    const layer = blob(readJson(blob(digest)).layers[0].digest)
    const [, distribution] = /^VERSION_ID="?([\w.]+)/m.exec(filesOf(layer, './usr/lib/os-release'))
    const stanzas = filesOf(layer, './var/lib/dpkg/status.d/*').split(/^(?=Package: )/m)
    return stanzas.map((stanza) => debianPackage(stanza, distribution)).sort((a, b) => (a.purl < b.purl ? -1 : 1))
  })
}

function debianPackage(stanza, distribution) {
  const [name, version, architecture] = ['Package', 'Version', 'Architecture'].map(
    (field) => new RegExp(`^${field}: (.+)$`, 'm').exec(stanza)[1],
  )
  const purl = `pkg:deb/debian/${name.replaceAll('+', '%2B')}@${encodeURIComponent(version)}?arch=${architecture}&distro=debian-${distribution}`
  return { type: 'library', 'bom-ref': purl, name, version, purl, properties: [{ name: 'edge:in', value: 'image' }] }
}

function filesOf(layer, pattern) {
  return execFileSync('tar', ['--extract', '--gzip', '--to-stdout', '--wildcards', '--file', layer, pattern], { encoding: 'utf8' })
}

function blob(digest) {
  return join(image, 'blobs', digest.replace(':', '/'))
}

function readJson(file) {
  return JSON.parse(readFileSync(file, 'utf8'))
}

/** The programs that a release is made with: Node and npm, and Debian's packages by their versions, of which liblzma compresses for dpkg. */
function builders() {
  const packages = ['dpkg', 'gzip', 'liblzma5', 'mmdebstrap', 'tar']
  // biome-ignore lint/suspicious/noTemplateCurlyInString: these are fields of dpkg-query.
  const shown = execFileSync('dpkg-query', ['--show', '--showformat', '${Package} ${Version}\n', ...packages], { encoding: 'utf8' })
  const debian = [...new Set(shown.trimEnd().split('\n'))].map((line) => line.split(' '))
  const npm = execFileSync('npm', ['--version'], { encoding: 'utf8' }).trim()
  return [['node', process.versions.node], ['zlib', process.versions.zlib], ['npm', npm], ...debian].map(([name, version]) => ({
    type: 'application',
    name,
    version,
  }))
}

/** A name-based UUID, so that it changes with the content alone. */
function uuidOf(text) {
  const hex = createHash('sha256').update(text).digest('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `a${hex.slice(17, 20)}`, hex.slice(20, 32)].join('-')
}
