export function whole(number) {
  return Math.round(number).toLocaleString('en')
}
