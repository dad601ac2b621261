// The second half of `npm run build`: bundles dist/ into the program, in program/. A thread that loads one file starts in half the time that it
// needs for more than a hundred. Dynamically imported modules stay separate files. Packages are bundled, too, and the other files that the program
// reads lie beside them: program/ is complete in itself, wherever it is copied.
import { chmodSync, copyFileSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { COUNTRY_FILE, notePackage, noticesOf } from './notices.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const DIST = fileURLToPath(new URL('../dist/', import.meta.url))
const CONSOLE = fileURLToPath(new URL('../console/', import.meta.url))
const PROGRAM = fileURLToPath(new URL('../program/', import.meta.url))
const LOADER = fileURLToPath(new URL('program-loader.cjs', import.meta.url))

/** Entry points of processes and threads. They share no code at run time, so each has its own copy and has to load only one file. */
const ENTRIES = {
  edge: 'cli/main.js',
  // `serve` is an entry of its own, because code that it shares with other commands would otherwise become further files.
  serve: 'cli/serve.js',
  'worker-thread': 'runtime/threads/worker-thread.js',
  'bundle-thread': 'bundle/bundle-thread.js',
  'descriptor-copier': 'runtime/threads/descriptor-copier.js',
}

rmSync(PROGRAM, { recursive: true, force: true })
const { rolldown } = await import('rolldown').catch(refuse)
const packages = new Set()
for (const [name, file] of Object.entries(ENTRIES)) await bundle(rolldown, name, file, packages)
await bundleConsole(rolldown, packages)
copyFiles()
writeFileSync(`${PROGRAM}THIRD-PARTY-NOTICES`, noticesOf(packages))
await (await import('./code-cache.mjs')).writeCodeCache(PROGRAM)
// `npm start` takes a program that is not executable for an interrupted build.
chmodSync(`${PROGRAM}edge.js`, 0o755)

function refuse({ message }) {
  process.stderr.write(`edge: not built: the bundler needs Node 20.19 or later, in the 22 series 22.12: ${message.split('\n', 1)[0]}\n`)
  process.exit(1)
}

async function bundle(rolldown, name, file, packages) {
  const bundle = await rolldown({ input: { [name]: `${DIST}${file}` }, platform: 'node', plugins: [{ name: 'serve', resolveId: apart }] })
  const { output } = await bundle.generate({
    dir: PROGRAM,
    format: 'cjs',
    dynamicImportInCjs: false,
    sourcemap: true,
    entryFileNames: '[name]-main.js',
    chunkFileNames: `${name}-[name].js`,
  })
  await bundle.close()
  mkdirSync(PROGRAM, { recursive: true })
  for (const { type, fileName, code, source, moduleIds } of output) {
    writeFileSync(`${PROGRAM}${fileName}`, type === 'chunk' ? inAscii(code.replace(/^#!.*/, '')) : source)
    for (const id of moduleIds ?? []) notePackage(packages, id)
  }
  writeFileSync(`${PROGRAM}${name}.js`, `#!/usr/bin/env node\nmodule.exports = require('./load.js').load('./${name}-main.js')\n`)
}

/** Keeps the command `serve` out of the bundle, because it is an entry of its own. */
function apart(id, importer) {
  return id === './serve.js' && importer !== undefined ? { id: './serve-main.js', external: true } : undefined
}

/** Escapes non-ASCII characters. Outside of comments, they occur in strings, templates and regular expressions, where the escape is equivalent. */
function inAscii(code) {
  return code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Bundles the operators' page into one script, with the packages that it uses, beside its other files. */
async function bundleConsole(rolldown, packages) {
  const dir = `${PROGRAM}console/`
  const bundle = await rolldown({ input: { console: `${CONSOLE}main.tsx` }, platform: 'browser', tsconfig: `${CONSOLE}tsconfig.json` })
  const { output } = await bundle.write({
    dir,
    format: 'esm',
    minify: true,
    entryFileNames: '[name].js',
    postBanner: '/*! For licences see THIRD-PARTY-NOTICES of edge-decision-service. */',
  })
  await bundle.close()
  for (const id of output.flatMap(({ moduleIds }) => moduleIds ?? [])) notePackage(packages, id)
  for (const name of ['index.html', 'icon.svg']) copyFileSync(`${CONSOLE}${name}`, `${dir}${name}`)
  writeFileSync(`${dir}console.css`, styles())
  for (const name of readdirSync(dir)) writeFileSync(`${dir}${name}.gz`, gzipSync(readFileSync(`${dir}${name}`), { level: 9 }))
}

/** Joins all style sheets into one file, from the general to the particular: parts, charts and views have theirs beside them. */
function styles() {
  const chart = fileURLToPath(import.meta.resolve('uplot/dist/uPlot.min.css'))
  const own = ['', 'parts/', 'charts/', 'views/'].flatMap((folder) => sheetsIn(`${CONSOLE}${folder}`))
  return [chart, ...own].map((file) => readFileSync(file, 'utf8')).join('\n')
}

function sheetsIn(folder) {
  const names = readdirSync(folder).filter((name) => name.endsWith('.css'))
  return names.sort().map((name) => `${folder}${name}`)
}

/** Copies what the program reads at run time, and the licence under which it may be passed on. */
function copyFiles() {
  const { name, version, license } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8'))
  // Unlike the rest of the package, these files are CommonJS, which Node loads faster.
  writeFileSync(`${PROGRAM}package.json`, `${JSON.stringify({ name, version, license, type: 'commonjs' }, null, 2)}\n`)
  copyFileSync(LOADER, `${PROGRAM}load.js`)
  copyFileSync(`${ROOT}LICENSE`, `${PROGRAM}LICENSE`)
  copyFileSync(COUNTRY_FILE, `${PROGRAM}${basename(COUNTRY_FILE)}`)
  cpSync(`${ROOT}assets`, `${PROGRAM}assets`, { recursive: true })
}
