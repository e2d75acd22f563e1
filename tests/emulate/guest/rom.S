# 64 KiB ROM at 0xffff0000 in place of a BIOS: from real mode to protected mode, then to the kernel's PVH entry.
# May know: x86, Xen's PVH boot protocol, how Bochs gives out memory.
# Must not know: what is booted; boot.py fills in the four parameters at the front.
    .code16
    .text
    .globl _start
_start:
parameters:
    .long 0, 0, 0, 0 # image begin, image end, PVH entry, hvm_start_info
real_mode:
    cli
    lgdtl %cs:(table_register - _start)
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $8, $protected_mode
    .code32
protected_mode:
    movw $16, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movw %ax, %fs
    movw %ax, %gs
    movl parameters, %edx
    movl parameters + 4, %ecx
# Bochs gives out its 128 KiB blocks of host memory in the order of their first use, but reads the image file as if they
# were contiguous: so use them in ascending order, and no other memory (no stack) before.
touch:
    movl (%edx), %eax
    addl $0x20000, %edx
    cmpl %ecx, %edx
    jb touch
    movl parameters + 12, %ebx
    movl parameters + 8, %eax
    jmp *%eax
    .align 8
table:
    .quad 0, 0x00cf9b000000ffff, 0x00cf93000000ffff # none, flat code, flat data
table_register:
    .word 23
    .long table
    .org 0xfff0
    .code16
    jmp real_mode
    .org 0x10000
