// The second half of `npm run build`: dist/ becomes the program, in program/. A thread that loads one file starts in half the time that it
// needs for more than a hundred. What is imported dynamically stays a file of its own, and packages stay where npm puts them.
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const DIST = fileURLToPath(new URL('../dist/', import.meta.url))
const PROGRAM = fileURLToPath(new URL('../program/', import.meta.url))

/** Where each process and thread begins. They share no code at run time, so each has its own copy, and one file is all it must load. */
const ENTRIES = {
  edge: 'cli/main.js',
  'worker-thread': 'runtime/threads/worker-thread.js',
  'bundle-thread': 'bundle/bundle-thread.js',
  'descriptor-copier': 'runtime/threads/descriptor-copier.js',
}

rmSync(PROGRAM, { recursive: true, force: true })
for (const [name, file] of Object.entries(ENTRIES)) {
  const bundle = await rolldown({ input: { [name]: `${DIST}${file}` }, external: /^[^./]/, platform: 'node' })
  await bundle.write({ dir: PROGRAM, format: 'esm', sourcemap: true, entryFileNames: '[name].js', chunkFileNames: `${name}-[name].js` })
  await bundle.close()
}
