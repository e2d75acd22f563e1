# Reads objdump's listings of x86-64 and AArch64: functions, loops, and which registers point into the stack.
# May know: objdump's text, the two instruction sets' operand syntax.
# Must not know: heed, which functions there are, what is right or wrong.
import re
import subprocess

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\s+(\S+)\s*(.*)$")
JUMP_TARGET = re.compile(r"(?:^|\s|,)(?:0x)?([0-9a-f]+) <[^>]*>$")
PREFIXES = {"bnd", "notrack", "rep", "repz", "repnz", "lock", "data16", "rex", "cs", "ds", "es"}


def split_operands(text):
    """At the commas outside of all brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + [last] if last else parts


class Instruction:
    def __init__(self, address, mnemonic, operands, text, target):
        self.address, self.mnemonic, self.operands, self.text, self.target = address, mnemonic, operands, text, target


class X86:
    """AT&T syntax: the destination is the last operand."""

    name = "x86-64"
    STACK = "rsp"
    REGISTER = re.compile(r"^%(\w+)")
    VECTOR = re.compile(r"%[xyz]mm\d+")
    MEMORY = re.compile(r"\((%\w+)?(?:,(%\w+)(?:,\d)?)?\)")
    FMA = re.compile(r"^vfn?m(add|sub)\d+[ps]s$")
    ONLY_READS = re.compile(r"^(cmp|test|v?u?comis|push|j|prefetch|bt[lqw]?$|vtest|vptest|kortest|nop|call)")
    CALL_CLOBBERS = {"rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"}

    @staticmethod
    def canonical(register):
        """eax, ax, al -> rax; r9d -> r9."""
        name = register.lstrip("%")
        match = re.match(r"^(r\d+)[dwb]?$", name)
        if match:
            return match.group(1)
        match = re.match(r"^[re]?([a-d])[xlh]$", name)
        if match:
            return "r" + match.group(1) + "x"
        match = re.match(r"^[re]?(sp|bp|si|di)l?$", name)
        return "r" + match.group(1) if match else name

    @classmethod
    def memory_registers(cls, instruction):
        found = []
        for operand in instruction.operands:
            match = cls.MEMORY.search(operand)
            if match:
                found += [cls.canonical(r) for r in match.groups() if r]
        return found

    @staticmethod
    def flow(instruction):
        m = instruction.mnemonic
        if m.startswith("jmp"):
            return "jump"
        if m.startswith("j"):
            return "branch"
        if m.startswith("ret") or m in ("ud2", "hlt"):
            return "end"
        return "call" if m.startswith("call") else "next"

    @classmethod
    def fma_destination(cls, instruction):
        if not cls.FMA.match(instruction.mnemonic):
            return None
        return re.sub(r"[xyz]mm", "v", cls.VECTOR.search(instruction.operands[-1]).group(0))

    @classmethod
    def track(cls, instruction, pointers):
        """The registers that may point into the stack after the instruction."""
        m, operands = instruction.mnemonic, instruction.operands
        if m.startswith("call"):
            return pointers - cls.CALL_CLOBBERS
        match = cls.REGISTER.match(operands[-1]) if operands else None
        if not match or cls.ONLY_READS.match(m):
            return pointers
        to = cls.canonical(match.group(1))
        if to == cls.STACK:
            return pointers
        from_register = cls.REGISTER.match(operands[0])
        source = bool(from_register) and cls.canonical(from_register.group(1)) in pointers
        if m.startswith("lea"):
            points = any(r in pointers for r in cls.memory_registers(instruction))
        elif m.startswith("mov") and from_register:
            points = source
        elif re.match(r"^(add|sub|and|or|inc|dec|cmov)", m):
            points = to in pointers or source
        else:
            points = False
        return pointers | {to} if points else pointers - {to}


class AArch64:
    """The destination is the first operand; stores have none."""

    name = "AArch64"
    STACK = "sp"
    REGISTER = re.compile(r"^([xw]\d+|w?sp|[xw]zr)$")
    VECTOR = re.compile(r"(?:^|\{)([vqdsbh]\d+)\b")
    MEMORY = re.compile(r"\[([^\]]*)\]")
    FMA = re.compile(r"^(fmla|fmls|fn?madd|fn?msub)$")
    ONLY_READS = re.compile(r"^(cmp|cmn|tst|ccmp|ccmn|b|cb|tb|ret|st|prfm|nop|fcmp)")
    CALL_CLOBBERS = {"x%d" % i for i in range(19)}

    @staticmethod
    def canonical(register):
        return {"wsp": "sp"}.get(register, "x" + register[1:] if register[0] == "w" else register)

    @classmethod
    def memory_registers(cls, instruction):
        found = []
        for operand in instruction.operands:
            match = re.match(r"^\[(.*?)\]", operand)
            if match:
                names = [part.strip().split(" ")[0] for part in match.group(1).split(",")]
                found += [cls.canonical(n) for n in names if cls.REGISTER.match(n)]
        return found

    @staticmethod
    def flow(instruction):
        m = instruction.mnemonic
        if m in ("b", "br"):
            return "jump"
        if m.startswith("b.") or m in ("cbz", "cbnz", "tbz", "tbnz"):
            return "branch"
        if m == "ret" or m in ("udf", "brk"):
            return "end"
        return "call" if m in ("bl", "blr") else "next"

    @classmethod
    def fma_destination(cls, instruction):
        if not cls.FMA.match(instruction.mnemonic):
            return None
        return "v" + re.match(r"^[a-z](\d+)", instruction.operands[0]).group(1)

    @classmethod
    def track(cls, instruction, pointers):
        m, operands = instruction.mnemonic, instruction.operands
        if m in ("bl", "blr"):
            return pointers - cls.CALL_CLOBBERS
        if not operands or cls.ONLY_READS.match(m) or not cls.REGISTER.match(operands[0]):
            return pointers
        written = [cls.canonical(operands[0])]
        if m.startswith("ldp") and cls.REGISTER.match(operands[1]):
            written.append(cls.canonical(operands[1]))
        points = False
        if re.match(r"^(add|sub|mov|and|orr|csel)$", m):
            points = any(cls.REGISTER.match(o) and cls.canonical(o) in pointers for o in operands[1:])
        for to in written:
            if to != cls.STACK:
                pointers = pointers | {to} if points else pointers - {to}
        return pointers


class Block:
    def __init__(self, instructions):
        self.instructions, self.next, self.before = instructions, [], []


class Function:
    """A function cut into blocks; blocks[0] is the entry."""

    def __init__(self, name, instructions, machine):
        self.name, self.machine = name, machine
        self.blocks = self._cut(instructions)
        self._connect()

    def _cut(self, instructions):
        starts = {instructions[0].address}
        for i, instruction in enumerate(instructions):
            if self.machine.flow(instruction) in ("jump", "branch", "end"):
                if instruction.target is not None:
                    starts.add(instruction.target)
                if i + 1 < len(instructions):
                    starts.add(instructions[i + 1].address)
        blocks, current = [], []
        for instruction in instructions:
            if instruction.address in starts and current:
                blocks.append(Block(current))
                current = []
            current.append(instruction)
        return blocks + [Block(current)]

    def _connect(self):
        by_address = {b.instructions[0].address: i for i, b in enumerate(self.blocks)}
        indirect = []
        for i, block in enumerate(self.blocks):
            last = block.instructions[-1]
            flow = self.machine.flow(last)
            if flow in ("jump", "branch") and last.target in by_address:
                block.next.append(by_address[last.target])
            elif flow == "jump" and last.target is None:
                indirect.append(i)
            if flow in ("branch", "next", "call") and i + 1 < len(self.blocks):
                block.next.append(i + 1)
        for i, block in enumerate(self.blocks):
            for j in block.next:
                self.blocks[j].before.append(i)
        # Where nothing leads to, a jump table may; but padding is never reached.
        for i, block in enumerate(self.blocks[1:], 1):
            padding = all(instruction.mnemonic.startswith("nop") for instruction in block.instructions)
            if padding and not block.before:
                for j in block.next:
                    self.blocks[j].before.remove(i)
                block.next = []
        for i, block in enumerate(self.blocks[1:], 1):
            if not block.before:
                for j in indirect:
                    self.blocks[j].next.append(i)
                    block.before.append(j)

    def _dominators(self):
        """For each block the set of blocks, as bits, through which every way to it leads."""
        everything = (1 << len(self.blocks)) - 1
        dominators = [1] + [everything] * (len(self.blocks) - 1)
        changed = True
        while changed:
            changed = False
            for i, block in enumerate(self.blocks[1:], 1):
                new = everything
                for j in block.before:
                    new &= dominators[j]
                new |= 1 << i
                changed |= new != dominators[i]
                dominators[i] = new
        return dominators

    def innermost_loops(self):
        """Lists of block numbers: the natural loops that contain no other."""
        dominators, loops = self._dominators(), {}
        for i, block in enumerate(self.blocks):
            for head in block.next:
                if not dominators[i] >> head & 1:
                    continue
                body, waiting = loops.setdefault(head, {head}), [i]
                while waiting:
                    j = waiting.pop()
                    if j not in body:
                        body.add(j)
                        waiting += self.blocks[j].before
        return [sorted(body) for head, body in sorted(loops.items()) if not any(h in body for h in loops if h != head)]

    def stack_pointers(self):
        """For each block the registers that may point into the stack at its begin."""
        start = frozenset({self.machine.STACK})
        states, waiting = [start] + [None] * (len(self.blocks) - 1), [0]
        while waiting:
            i = waiting.pop()
            state = states[i]
            for instruction in self.blocks[i].instructions:
                state = self.machine.track(instruction, state)
            for j in self.blocks[i].next:
                merged = state if states[j] is None else states[j] | state
                if merged != states[j]:
                    states[j] = merged
                    waiting.append(j)
        return [start if s is None else s for s in states]

    def vector_stack_accesses(self, loop):
        """The instructions of a loop that move whole or part vector registers to or from the stack."""
        states, found = self.stack_pointers(), []
        for i in loop:
            pointers = states[i]
            for instruction in self.blocks[i].instructions:
                uses_vector = any(self.machine.VECTOR.search(o) for o in instruction.operands)
                if uses_vector and any(r in pointers for r in self.machine.memory_registers(instruction)):
                    found.append(instruction)
                pointers = self.machine.track(instruction, pointers)
        return found


def parse(text):
    """The functions of a listing of `objdump -d --no-show-raw-insn -w`, GNU's or LLVM's."""
    header = re.search(r"file format (\S+)", text)
    if not header:
        raise ValueError("no listing of objdump: it names no file format")
    machine = AArch64 if "aarch64" in header.group(1) else X86 if "x86-64" in header.group(1) else None
    if not machine:
        raise ValueError("file format %s is neither x86-64 nor AArch64" % header.group(1))
    functions, name, instructions = [], None, []
    for line in text.splitlines() + ["0 <end>:"]:
        match = FUNCTION.match(line)
        if match:
            if name and instructions:
                functions.append(Function(name, instructions, machine))
            name, instructions = match.group(1), []
            continue
        match = INSTRUCTION.match(line)
        if match:
            instructions.append(parse_instruction(int(match.group(1), 16), match.group(2), match.group(3)))
    return functions


def parse_instruction(address, mnemonic, rest):
    text = (mnemonic + " " + rest).strip()
    while mnemonic in PREFIXES and rest:
        mnemonic, _, rest = rest.partition(" ")
        rest = rest.strip()
    rest = re.split(r"\s+(?:#|//)\s", rest)[0].strip()
    target = JUMP_TARGET.search(rest)
    return Instruction(address, mnemonic, split_operands(rest), text, int(target.group(1), 16) if target else None)


def disassemble(objdump, path):
    result = subprocess.run([objdump, "-d", "--no-show-raw-insn", "-w", path], stdout=subprocess.PIPE, check=True)
    return parse(result.stdout.decode("utf-8", "replace"))
