import { copyFileSync, mkdirSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { defineConfig } from 'vitepress'
import { excluded, places, REPOSITORY, sidebar, targetOf } from '../pages.mjs'

/** Files of the repository that pages link to. */
const copied = new Set()
/** Languages that the highlighter does not know. */
const PLAIN = new Set(['caddyfile', 'haproxy', 'promql'])

export default defineConfig({
  title: 'edge',
  description: 'Rate limits and LLM budgets for your gateway',
  lang: 'en',
  // For a site that is not at the root of its host, such as `/edge/`.
  base: process.env.SITE_BASE ?? '/',
  srcDir: REPOSITORY,
  srcExclude: excluded,
  rewrites: places,
  outDir: join(REPOSITORY, 'site/dist'),
  cacheDir: join(REPOSITORY, 'site/node_modules/.vitepress'),
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  markdown: {
    anchor: { slugify: anchorOf },
    config: (md) => md.core.ruler.push('for_the_site', forTheSite),
  },
  vite: {
    // The index of the search is one file, which a browser loads when somebody searches.
    build: { chunkSizeWarningLimit: 2000 },
    plugins: [{ name: 'vue-of-the-site', enforce: 'pre', resolveId: vueOfTheSite }],
  },
  themeConfig: {
    search: { provider: 'local' },
    sidebar: sidebar(),
    outline: { level: [2, 3] },
    nav: [
      { text: 'Getting started', link: '/getting-started' },
      { text: 'Cookbook', link: '/cookbook' },
      { text: 'Configuration', link: '/configuration' },
      { text: 'Runbook', link: '/runbook' },
      { text: 'Changelog', link: '/project/changelog' },
    ],
  },
  buildEnd({ outDir }) {
    for (const file of copied) {
      const copy = join(outDir, 'files', `${file}.txt`)
      mkdirSync(dirname(copy), { recursive: true })
      copyFileSync(join(REPOSITORY, file), copy)
    }
  },
})

/** Pages lie outside of this folder and would look for Vue where they are. What renders them to HTML runs here, and finds it. */
function vueOfTheSite(name, _importer, { ssr }) {
  return ssr && /^vue(?:$|\/)/.test(name) ? { id: name, external: true } : undefined
}

/** Anchors are those that GitHub makes, so that one link is right in both. The second of two equal headings ends in `-1` in both. */
function anchorOf(heading) {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')
}

function forTheSite({ tokens, env }) {
  const file = relative(REPOSITORY, env.realPath ?? env.path)
  for (const token of tokens.flatMap((token) => [token, ...(token.children ?? [])])) {
    if (token.type === 'fence' && PLAIN.has(token.info)) token.info = 'txt'
    // Vue would take `{{` in code for an expression of its own.
    if (token.type === 'code_inline' || token.type === 'code_block') token.attrSet('v-pre', '')
    if (token.type === 'link_open') leadIntoSite(token, file)
  }
}

function leadIntoSite(link, file) {
  const target = targetOf(file, link.attrGet('href'))
  if (target === undefined) return
  link.attrSet('href', target.href)
  if (target.copied !== undefined) copied.add(target.copied)
}
