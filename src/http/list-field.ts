/** Whether a field that is a list (RFC 9110 5.6.1) has this member, which is given in lower case. */
export function hasMember(list: string, member: string): boolean {
  for (let from = 0; from <= list.length; ) {
    const comma = list.indexOf(',', from)
    const end = comma < 0 ? list.length : comma
    if (isMember(list, from, end, member)) return true
    from = end + 1
  }
  return false
}

/** The members of a list, without the white space around them. Empty ones stay. */
export function listMembers(list: string): string[] {
  return list.split(',').map((member) => member.trim())
}

function isMember(list: string, from: number, end: number, member: string): boolean {
  while (from < end && isSpace(list.charCodeAt(from))) from++
  while (end > from && isSpace(list.charCodeAt(end - 1))) end--
  return end - from === member.length && list.slice(from, end).toLowerCase() === member
}

/** RFC 9110 5.6.3: what may stand around a member. */
function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x09
}
