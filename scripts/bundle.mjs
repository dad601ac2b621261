// The second half of `npm run build`: dist/ becomes the program, in program/. A thread that loads one file starts in half the time that it
// needs for more than a hundred. What is imported dynamically stays a file of its own, and packages stay where npm puts them.
import { chmodSync, copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'

const DIST = fileURLToPath(new URL('../dist/', import.meta.url))
const CONSOLE = fileURLToPath(new URL('../console/', import.meta.url))
const PROGRAM = fileURLToPath(new URL('../program/', import.meta.url))

/** Where each process and thread begins. They share no code at run time, so each has its own copy, and one file is all it must load. */
const ENTRIES = {
  edge: 'cli/main.js',
  'worker-thread': 'runtime/threads/worker-thread.js',
  'bundle-thread': 'bundle/bundle-thread.js',
  'descriptor-copier': 'runtime/threads/descriptor-copier.js',
}

rmSync(PROGRAM, { recursive: true, force: true })
const bundler = await import('rolldown').catch((error) => error)
if (bundler instanceof Error) leaveApart(bundler)
else {
  for (const [name, file] of Object.entries(ENTRIES)) await bundle(bundler.rolldown, name, file)
  await bundleConsole(bundler.rolldown)
}
chmodSync(`${PROGRAM}edge.js`, 0o755)

async function bundle(rolldown, name, file) {
  const bundle = await rolldown({ input: { [name]: `${DIST}${file}` }, external: /^[^./]/, platform: 'node' })
  await bundle.write({ dir: PROGRAM, format: 'esm', sourcemap: true, entryFileNames: '[name].js', chunkFileNames: `${name}-[name].js` })
  await bundle.close()
}

/** The operators' page: one script, with the packages that it uses, beside its other files. */
async function bundleConsole(rolldown) {
  const dir = `${PROGRAM}console/`
  const bundle = await rolldown({ input: { console: `${CONSOLE}main.tsx` }, platform: 'browser', tsconfig: `${CONSOLE}tsconfig.json` })
  await bundle.write({ dir, format: 'esm', minify: true, entryFileNames: '[name].js' })
  await bundle.close()
  for (const name of ['index.html', 'icon.svg']) copyFileSync(`${CONSOLE}${name}`, `${dir}${name}`)
  writeFileSync(`${dir}console.css`, styles())
  for (const name of readdirSync(dir)) writeFileSync(`${dir}${name}.gz`, gzipSync(readFileSync(`${dir}${name}`), { level: 9 }))
}

/** One file of all style sheets, from the general to the particular: a part's or a view's own stands beside it. */
function styles() {
  const chart = fileURLToPath(import.meta.resolve('uplot/dist/uPlot.min.css'))
  const own = ['', 'parts/', 'views/'].flatMap((folder) => sheetsIn(`${CONSOLE}${folder}`))
  return [chart, ...own].map((file) => readFileSync(file, 'utf8')).join('\n')
}

function sheetsIn(folder) {
  const names = readdirSync(folder).filter((name) => name.endsWith('.css'))
  return names.sort().map((name) => `${folder}${name}`)
}

/** It needs Node 20.19 or 22.12. An older one runs the program all the same. */
function leaveApart({ message }) {
  process.stderr.write(
    `edge: built, but not bundled, so that startup takes longer and the operators' page is missing: ${message.split('\n', 1)[0]}\n`,
  )
  mkdirSync(PROGRAM)
  writeFileSync(`${PROGRAM}edge.js`, `#!/usr/bin/env node\nimport '../dist/${ENTRIES.edge}'\n`)
}
